// SPDX-License-Identifier: BSD-3-Clause
#include "progress/polling.hpp"

namespace softrdma::net
{

void polling::enter() noexcept
{
    calls_.fetch_add(1, std::memory_order_relaxed);
    inside_.store(true, std::memory_order_relaxed);
}

bool polling::found_nothing(std::int64_t now) noexcept
{
    constexpr std::int64_t window_ns = 200'000;
    constexpr std::int64_t until_ns = 20'000;
    constexpr unsigned many = 8;
    constexpr unsigned yield_after = 32;
    if (const std::int64_t age = now - window_ns_.load(std::memory_order_relaxed); age > window_ns) {
        window_ns_.store(now, std::memory_order_relaxed);
        // Who has polled until now is not suspected of having stopped.
        const bool went_on = age < 2 * window_ns && in_window_.load(std::memory_order_relaxed) >= many;
        in_window_.store(went_on ? many : 0, std::memory_order_relaxed);
    }
    const unsigned polls = in_window_.fetch_add(1, std::memory_order_relaxed) + 1;
    if (polls < many)
        return false;
    // Programs that wait for memory to change poll no more.
    until_ns_.store(now + until_ns, std::memory_order_relaxed);
    return polls % yield_after == 0;
}

} // namespace softrdma::net
