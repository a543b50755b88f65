// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/lock_order.hpp"
#include "base/thread_safety.hpp"

#include <atomic>
#include <sched.h>

namespace softrdma
{

// Spin lock for critical sections of a few hundred instructions.
class CAPABILITY("mutex") spin_lock
{
public:
    explicit constexpr spin_lock(lock_level level) noexcept : order_(level) {}

    void lock() noexcept ACQUIRE() NO_THREAD_SAFETY_ANALYSIS
    {
        order_.enter();
        if (taken_.exchange(true, std::memory_order_acquire)) [[unlikely]]
            wait();
    }
    void unlock() noexcept RELEASE() NO_THREAD_SAFETY_ANALYSIS
    {
        order_.leave();
        taken_.store(false, std::memory_order_release);
    }

private:
    [[gnu::noinline, gnu::cold]] void wait() noexcept
    {
        unsigned tries = 0;
        do {
            while (taken_.load(std::memory_order_relaxed)) {
                if (++tries > 100) // the owner may have been preempted
                    sched_yield();
            }
        } while (taken_.exchange(true, std::memory_order_acquire));
    }

    std::atomic<bool> taken_{false};
    [[no_unique_address]] lock_order order_;
};

} // namespace softrdma
