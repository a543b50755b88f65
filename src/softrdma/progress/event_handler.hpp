// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace softrdma::net
{

enum class finding {
    nothing,
    something,
    taken, // by another thread, which is at it
};

// Who is told of input.
class event_handler
{
public:
    virtual ~event_handler() = default;
    // Called by the progress thread or by a polling thread, with no lock held, possibly by several threads at once.
    virtual finding ready(std::uint32_t events) = 0;
    // Looks for input without having been told of any.
    virtual finding look() { return finding::nothing; }
    // The same in memory only, without a call of the kernel.
    virtual finding look_in_memory() { return finding::nothing; }
    // Of one that finds input there: the progress thread is going to sleep, and what comes from now on has to wake
    // it through a descriptor. True if something is there already.
    virtual bool about_to_sleep() { return false; }
    // One of the others has failed for want of memory. Called by the same thread, which holds no lock any more.
    virtual void out_of_memory() noexcept {}
};

} // namespace softrdma::net
