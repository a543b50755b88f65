// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "wire/packet.hpp"

#include <chrono>
#include <functional>
#include <span>
#include <sys/uio.h>

struct sockaddr_storage;

namespace softrdma
{

// Interface of a path for the packets of a queue pair, whose lock its calls need. They neither block nor call back.
class packet_path
{
public:
    static constexpr std::size_t max_iovecs = 16; // limit for the payload of transmit()

    virtual ~packet_path() = default;

    // Sends one segment, in order, and consumes the payload. A failed path drops it; packet_receiver::path_lost()
    // follows. With `more`, the path may delay the segment until the next one or push().
    virtual void transmit(const packet &header, std::span<const iovec> payload, bool more) = 0;

    virtual void push() = 0;              // sends delayed segments
    virtual std::size_t send_space() = 0; // bytes that can be sent without a copy, if known
    virtual bool congested() = 0;         // offer no request until path_writable()
    // Offer no READ response until path_writable(). They must not wait for acknowledgments, which can follow them.
    virtual bool responses_congested() { return congested(); }

    // Calls packet_receiver::timer_expired() after the delay. Only the latest timer of a path counts.
    virtual void start_timer(std::chrono::microseconds delay) = 0;

    virtual void start_response_timer(std::chrono::microseconds delay) = 0; // see response_timer_expired()

    virtual const char *name() const noexcept = 0; // name in reports
    virtual void ends(sockaddr_storage &local, sockaddr_storage &remote) const = 0;

    virtual void cut() noexcept = 0; // breaks the path; packet_receiver::path_lost() follows on both sides
};

// Receiver of a path's packets and events. An interface, because paths know no queue pair. The calls take its lock.
// Packets of an earlier path are ignored: their PSNs may coincide with those of the current connection.
class packet_receiver
{
public:
    virtual ~packet_receiver() = default;

    // Called by one thread at a time for each path. Returns false if the peer broke the protocol.
    virtual bool receive(packet_path &from, const packet &p) = 0;
    // Calls `fill` with the destination, at most `bytes` contiguous ones, of the rest of a segment: data stored there
    // needs no copy. Does not call it if words must be stored whole or the destination is uncertain.
    virtual void fill_destination(const packet_path &from, const packet &partial, std::size_t bytes,
            const std::function<void(std::span<std::byte>)> &fill) = 0;
    virtual void received_all() = 0; // called after the received packets were handled, before the thread waits for more
    virtual void path_writable() = 0; // the path is no longer congested
    virtual void timer_expired() = 0;
    virtual void response_timer_expired() = 0;
    virtual void path_lost(const packet_path &path) = 0;
};

} // namespace softrdma
