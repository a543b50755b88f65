// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/lock_order.hpp"
#include "base/thread_safety.hpp"

#include <atomic>
#include <cstdint>
#include <ctime>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

namespace softrdma
{

// Like ordered_mutex, for the data path: without contention, it makes no call and executes one atomic instruction.
class CAPABILITY("mutex") sleeping_lock
{
public:
    explicit constexpr sleeping_lock(lock_level level) noexcept : order_(level) {}

    void lock() noexcept ACQUIRE() NO_THREAD_SAFETY_ANALYSIS
    {
        order_.enter();
        std::uint32_t expected = open;
        if (!state_.compare_exchange_strong(expected, taken, std::memory_order_acquire, std::memory_order_relaxed))
                [[unlikely]]
            wait();
    }
    bool try_lock() noexcept TRY_ACQUIRE(true) NO_THREAD_SAFETY_ANALYSIS
    {
        std::uint32_t expected = open;
        if (!state_.compare_exchange_strong(expected, taken, std::memory_order_acquire, std::memory_order_relaxed))
            return false;
        order_.enter();
        return true;
    }
    void unlock() noexcept RELEASE() NO_THREAD_SAFETY_ANALYSIS
    {
        order_.leave();
        if (state_.load(std::memory_order_relaxed) == taken) [[likely]]
            state_.store(open, std::memory_order_release);
        else
            wake();
    }

private:
    static constexpr std::uint32_t open = 0;
    static constexpr std::uint32_t taken = 1;
    static constexpr std::uint32_t awaited = 2; // taken, and threads sleep until it is released

    // A thread that goes to sleep between the two steps of unlock() is not woken; it rechecks the lock after 1 ms.
    [[gnu::noinline, gnu::cold]] void wait() noexcept
    {
        constexpr timespec recheck{.tv_sec = 0, .tv_nsec = 1000000};
        while (state_.exchange(awaited, std::memory_order_acquire) != open)
            syscall(SYS_futex, &state_, FUTEX_WAIT_PRIVATE, awaited, &recheck, nullptr, 0);
    }
    [[gnu::noinline, gnu::cold]] void wake() noexcept
    {
        state_.store(open, std::memory_order_release);
        syscall(SYS_futex, &state_, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
    }

    std::atomic<std::uint32_t> state_{open};
    [[no_unique_address]] lock_order order_;
};

} // namespace softrdma
