// SPDX-License-Identifier: BSD-3-Clause
#include "progress/polling.hpp"

#include <algorithm>

namespace softrdma
{

polling::pause polling::on_empty_poll(std::int64_t now) noexcept
{
    constexpr std::int64_t window_ns = 200'000;
    constexpr std::int64_t until_ns = 20'000;
    constexpr unsigned many = 8;
    constexpr unsigned pause_after = 32;
    if (checks_.fetch_add(1, std::memory_order_relaxed) == 0)
        since_ns_.store(now, std::memory_order_relaxed);
    choose_skips(now);
    if (const std::int64_t age = now - window_ns_.load(std::memory_order_relaxed); age > window_ns) {
        window_ns_.store(now, std::memory_order_relaxed);
        // A thread that polled until now still counts as polling.
        const bool was_polling = age < 2 * window_ns && in_window_.load(std::memory_order_relaxed) >= many;
        in_window_.store(was_polling ? many : 0, std::memory_order_relaxed);
    }
    const unsigned polls = in_window_.fetch_add(1, std::memory_order_relaxed) + 1;
    if (polls < many)
        return pause::none;
    // Expires unless another poll extends it: a program that waits for its memory to change makes no call.
    until_ns_.store(now + until_ns, std::memory_order_relaxed);
    return polls % pause_after == 0 ? choose_pause(now) : pause::none;
}

// Chooses how many polls skip the check: it is a system call, which takes as long as 20 empty polls without one.
void polling::choose_skips(std::int64_t now) noexcept
{
    constexpr unsigned before_skips = 1024;
    constexpr std::int64_t between_checks_ns = 3'000;
    constexpr std::int64_t max_skips = 63;
    const std::int64_t elapsed = now - checked_at_ns_.exchange(now, std::memory_order_relaxed);
    if (checks_.load(std::memory_order_relaxed) < before_skips)
        return;
    const std::int64_t polls = skips_.load(std::memory_order_relaxed) + 1;
    const std::int64_t fitting = between_checks_ns * polls / std::max<std::int64_t>(elapsed, 1);
    const auto skips = static_cast<unsigned>(std::min(fitting, max_skips));
    skips_.store(skips, std::memory_order_relaxed);
    skips_left_.store(skips, std::memory_order_relaxed);
}

// Chooses how to wait, up to a time slice of each other thread. Threads that sleep resume when a packet arrives.
polling::pause polling::choose_pause(std::int64_t now) const noexcept
{
    constexpr std::int64_t free_ns = 5'000'000;
    constexpr std::int64_t polls_per_pause = 4;
    const std::int64_t paused_ns = paused_ns_.load(std::memory_order_relaxed);
    const std::int64_t polled_ns = now - since_ns_.load(std::memory_order_relaxed) - paused_ns;
    if (paused_ns > free_ns + polled_ns / polls_per_pause)
        return pause::none;
    return sleeps_left_.load(std::memory_order_relaxed) > 0 ? pause::sleep : pause::yield;
}

void polling::paused(pause how, std::int64_t duration) noexcept
{
    constexpr std::int64_t long_ns = 200'000;
    constexpr unsigned sleeps_after_long_yield = 100;
    paused_ns_.fetch_add(duration, std::memory_order_relaxed);
    if (how == pause::yield && duration > long_ns)
        sleeps_left_.store(sleeps_after_long_yield, std::memory_order_relaxed);
    else if (const unsigned left = sleeps_left_.load(std::memory_order_relaxed); how == pause::sleep && left > 0)
        sleeps_left_.store(left - 1, std::memory_order_relaxed);
}

void polling::end_wait() noexcept
{
    checks_.store(0, std::memory_order_relaxed);
    paused_ns_.store(0, std::memory_order_relaxed);
    skips_.store(0, std::memory_order_relaxed);
    skips_left_.store(0, std::memory_order_relaxed);
}

} // namespace softrdma
