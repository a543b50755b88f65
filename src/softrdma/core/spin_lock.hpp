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
        for (unsigned tries = 0; taken_.exchange(true, std::memory_order_acquire); ++tries) {
            while (taken_.load(std::memory_order_relaxed)) {
                if (++tries > 100) // the owner may have lost its processor
                    sched_yield();
            }
        }
    }
    void unlock() noexcept { taken_.store(false, std::memory_order_release); }

private:
    std::atomic<bool> taken_{false};
};

} // namespace softrdma
