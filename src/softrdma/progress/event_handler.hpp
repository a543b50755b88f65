// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace softrdma
{

enum class poll_result {
    idle,
    progress,
    busy, // another thread is polling
};

class event_handler
{
public:
    virtual ~event_handler() = default;
    // Called by the progress thread or by a polling thread, with no lock held, possibly by several threads at once.
    virtual poll_result ready(std::uint32_t events) = 0;
    virtual poll_result poll() { return poll_result::idle; }
    // Like poll, but in memory only, without a system call.
    virtual poll_result poll_memory() { return poll_result::idle; }
    // For handlers with input in memory: the progress thread is about to sleep, so later input must wake it through a
    // descriptor. Returns true if input has arrived already.
    virtual bool about_to_sleep() { return false; }
    // Called without locks, by the same thread, after another function of the handler ran out of memory.
    virtual void out_of_memory() noexcept {}
};

} // namespace softrdma
