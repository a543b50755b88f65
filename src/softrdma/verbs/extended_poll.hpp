// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/sleeping_lock.hpp"

#include <infiniband/verbs.h>

namespace softrdma
{

// State of an extended CQ between ibv_start_poll() and ibv_end_poll(): the current entry and the lock of its thread.
struct extended_poll {
    explicit extended_poll(bool by_one_thread) noexcept : single_threaded(by_one_thread) {}
    // Held between calls of the program, which the compiler's analysis cannot follow.
    void lock() noexcept NO_THREAD_SAFETY_ANALYSIS
    {
        if (!single_threaded)
            mutex.lock();
    }
    void unlock() noexcept NO_THREAD_SAFETY_ANALYSIS
    {
        if (!single_threaded)
            mutex.unlock();
    }

    const bool single_threaded;
    sleeping_lock mutex{lock_level::program};
    ibv_wc wc{};
};

} // namespace softrdma
