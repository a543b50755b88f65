// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "wire/packet.hpp"

#include <chrono>
#include <span>
#include <sys/uio.h>

struct sockaddr_storage;

namespace softrdma
{

// Interface of a path for the packets of a queue pair to its peer. Each call is made with the lock of the queue pair
// held, does not block and never calls back into the queue pair.
class packet_path
{
public:
    virtual ~packet_path() = default;

    // Sends one segment, in order. The payload is consumed before the call returns. A failed path drops the segment,
    // and the queue pair is notified by queue_pair::path_lost(). With `more`, the path may delay the segment until the
    // next one or push().
    virtual void transmit(const packet &header, std::span<const iovec> payload, bool more) = 0;

    // Sends delayed segments.
    virtual void push() = 0;

    // True while no further data segment should be offered; rc_transport::path_writable() follows.
    virtual bool congested() = 0;

    // Number of bytes that can be sent without buffering, if known; the rest must be copied.
    virtual std::size_t send_space() = 0;

    // Calls rc_transport::timer_expired() after the delay. Only the latest timer of a path counts.
    virtual void start_timer(std::chrono::microseconds delay) = 0;

    // Calls rc_transport::answer_timer_expired() after the delay.
    virtual void start_answer_timer(std::chrono::microseconds delay) = 0;

    // Stores the addresses of both ends.
    virtual void ends(sockaddr_storage &here, sockaddr_storage &there) const = 0;

    // Breaks the path; queue_pair::path_lost() follows on both sides.
    virtual void cut() noexcept = 0;
};

} // namespace softrdma
