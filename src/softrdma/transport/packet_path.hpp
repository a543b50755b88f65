// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "wire/packet.hpp"

#include <chrono>
#include <span>
#include <sys/uio.h>

struct sockaddr_storage;

namespace softrdma
{

// What carries the packets of a queue pair to its peer. Every call is made with the queue pair's lock held, returns
// without waiting and never calls back into the queue pair.
class packet_path
{
public:
    virtual ~packet_path() = default;

    // Sends one segment, in order. The payload is consumed before the call returns. A path that has
    // failed swallows the segment; the queue pair learns of it through queue_pair::path_lost().
    // With `more` it may wait for the next one, or for push().
    virtual void transmit(const packet &header, std::span<const iovec> payload, bool more) = 0;

    // Sends what waits for more.
    virtual void push() = 0;

    // True while no further data segment should be offered; rc_transport::path_writable() follows.
    virtual bool congested() = 0;

    // How many bytes of a segment would leave at once, as far as is known; what does not has to be copied.
    virtual std::size_t room() = 0;

    // Calls rc_transport::timer_expired() after the delay. Only the latest timer of a path counts.
    virtual void start_timer(std::chrono::microseconds delay) = 0;

    // Calls rc_transport::answer_timer_expired() after the delay.
    virtual void start_answer_timer(std::chrono::microseconds delay) = 0;

    // The addresses of its two ends.
    virtual void ends(sockaddr_storage &here, sockaddr_storage &there) const = 0;

    // Breaks the path; queue_pair::path_lost() follows on both sides.
    virtual void cut() noexcept = 0;
};

} // namespace softrdma
