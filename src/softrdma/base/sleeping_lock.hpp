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

// As ordered_mutex, for what every operation takes: free, it costs no call and one instruction that waits for what was
// stored before.
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
    static constexpr std::uint32_t awaited = 2; // taken, and somebody sleeps until it is not

    // Who falls asleep while unlock() is between its two steps is not woken, and looks again by itself.
    [[gnu::noinline, gnu::cold]] void wait() noexcept
    {
        constexpr timespec look_again{.tv_sec = 0, .tv_nsec = 1000000};
        while (state_.exchange(awaited, std::memory_order_acquire) != open)
            syscall(SYS_futex, &state_, FUTEX_WAIT_PRIVATE, awaited, &look_again, nullptr, 0);
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
