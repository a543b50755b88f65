// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <sched.h>

namespace softrdma
{

// For sections of a few hundred instructions.
class spin_lock
{
public:
    void lock() noexcept
    {
        if (taken_.exchange(true, std::memory_order_acquire)) [[unlikely]]
            wait();
    }
    void unlock() noexcept { taken_.store(false, std::memory_order_release); }

private:
    [[gnu::noinline, gnu::cold]] void wait() noexcept
    {
        unsigned tries = 0;
        do {
            while (taken_.load(std::memory_order_relaxed)) {
                if (++tries > 100) // the owner may have lost its processor
                    sched_yield();
            }
        } while (taken_.exchange(true, std::memory_order_acquire));
    }

    std::atomic<bool> taken_{false};
};

} // namespace softrdma
