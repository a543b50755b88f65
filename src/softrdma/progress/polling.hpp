// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <cstdint>

namespace softrdma
{

// Tracks whether threads of the program poll, and their actions between two empty polls. These threads update it
// without a lock: an approximation is enough. Times are those of std::chrono::steady_clock, in nanoseconds.
class polling
{
public:
    void enter() noexcept
    {
        calls_.fetch_add(1, std::memory_order_relaxed);
        in_poll_.store(true, std::memory_order_relaxed);
    }
    void leave() noexcept { in_poll_.store(false, std::memory_order_relaxed); }

    enum class pause {
        none,
        yield,
        sleep,
    };
    // Called after a check without input. The pauses of a wait take at most 5 ms plus a quarter of its polling.
    pause on_empty_poll(std::int64_t now) noexcept;
    void paused(pause how, std::int64_t duration) noexcept;
    void on_input() noexcept
    {
        if (checks_.load(std::memory_order_relaxed) != 0)
            end_wait();
    }
    // Returns whether to skip a check. After 1024 checks without input, there is one every 3 microseconds.
    bool skips() noexcept
    {
        const unsigned left = skips_left_.load(std::memory_order_relaxed);
        if (left == 0) [[likely]]
            return false;
        skips_left_.store(left - 1, std::memory_order_relaxed);
        return true;
    }

    bool is_polling(std::int64_t now) const noexcept { return now < until_ns_.load(std::memory_order_relaxed); }
    void has_ended() noexcept { until_ns_ = 0; }
    unsigned calls() const noexcept { return calls_.load(std::memory_order_relaxed); }
    bool is_in_poll() const noexcept { return in_poll_.load(std::memory_order_relaxed); }

private:
    void end_wait() noexcept;
    void choose_skips(std::int64_t now) noexcept;
    pause choose_pause(std::int64_t now) const noexcept;

    std::atomic<std::int64_t> window_ns_{0};
    std::atomic<unsigned> in_window_{0};
    std::atomic<unsigned> calls_{0};
    std::atomic<bool> in_poll_{false};
    std::atomic<std::int64_t> until_ns_{0};
    std::atomic<unsigned> checks_{0}; // checks without input
    std::atomic<std::int64_t> since_ns_{0};
    std::atomic<std::int64_t> paused_ns_{0};
    std::atomic<std::int64_t> checked_at_ns_{0};
    std::atomic<unsigned> skips_{0}; // polls between the last two checks
    std::atomic<unsigned> skips_left_{0};
    std::atomic<unsigned> sleeps_left_{0}; // sleeps to use instead of yields
};

} // namespace softrdma
