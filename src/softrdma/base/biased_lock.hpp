// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/barriers.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <thread>

namespace softrdma
{

// One per thread: its address tells it from the others. Reached without a call, also from a preloaded library.
[[gnu::tls_model("initial-exec")]] inline constinit thread_local char thread_mark = 0;

// A lock with a home: the first thread that took it many times in a row takes it with plain stores from then on, where
// `Lock` costs an instruction that waits for what was stored before. Another thread calls the home off, which costs it
// a system call; the home comes back when it has taken the lock `first` times in a row, and twice as many after each
// time it was called off, up to `most`.
//
// The home says that it is inside and then looks whether it is called off; who calls it off says so and then looks
// whether it is inside. Between the two steps of the home there is no barrier: the other side's holds for both.
//
// As with `Lock`, another thread may unlock it than has locked it.
template<typename Lock, std::uint32_t first = 256, std::uint32_t most = 1u << 20>
class biased
{
public:
    void lock() noexcept
    {
        if (home_.load(std::memory_order_relaxed) == &thread_mark) [[likely]] {
            if (inside_.load(std::memory_order_acquire)) [[unlikely]] // what the home has locked is elsewhere now
                await_unlock();
            inside_.store(true, std::memory_order_relaxed);
            std::atomic_signal_fence(std::memory_order_seq_cst);
            if (at_home_.load(std::memory_order_acquire)) [[likely]]
                return;
            inside_.store(false, std::memory_order_release);
        }
        lock_as_others();
    }
    void unlock() noexcept
    {
        if (as_others_) [[unlikely]]
            unlock_as_others();
        else
            inside_.store(false, std::memory_order_release);
    }

private:
    [[gnu::noinline]] void lock_as_others() noexcept
    {
        lock_.lock();
        if (at_home_.load(std::memory_order_relaxed))
            call_off();
        as_others_ = true;
        in_a_row_ = latest_ == &thread_mark ? in_a_row_ + 1 : 0;
        latest_ = &thread_mark;
        // Never another thread: the first may be about to say that it is inside.
        const char *home = home_.load(std::memory_order_relaxed);
        comes_home_ = in_a_row_ >= threshold_ && (home == nullptr || home == latest_) && local::barriers::enroll();
    }
    // Not before: the thread may lock again while another one is still to unlock.
    [[gnu::noinline]] void unlock_as_others() noexcept
    {
        as_others_ = false;
        if (comes_home_) {
            home_.store(latest_, std::memory_order_relaxed);
            at_home_.store(true, std::memory_order_release);
        }
        lock_.unlock();
    }
    [[gnu::noinline, gnu::cold]] void call_off() noexcept
    {
        at_home_.store(false, std::memory_order_relaxed);
        local::barriers::execute_within_process();
        await_unlock();
        threshold_ = std::min(2 * threshold_, most);
    }
    [[gnu::noinline, gnu::cold]] void await_unlock() const noexcept
    {
        for (unsigned tries = 0; inside_.load(std::memory_order_acquire); ++tries) {
            if (tries > 1000) // a large copy, or no processor for it
                std::this_thread::sleep_for(std::chrono::microseconds(50));
            else if (tries > 100)
                std::this_thread::yield();
        }
    }

    std::atomic<const char *> home_{nullptr};
    std::atomic<bool> inside_{false};  // the home, or for whom it has locked
    std::atomic<bool> at_home_{false}; // else the home is one of the others
    bool as_others_ = false;           // whoever has it has locked `lock_`
    Lock lock_;
    // Guarded by that.
    bool comes_home_ = false; // with the next unlock
    std::uint32_t in_a_row_ = 0;
    std::uint32_t threshold_ = first;
    const char *latest_ = nullptr;
};

} // namespace softrdma
