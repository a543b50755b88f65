// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <cstdint>

namespace softrdma::net
{

// Whether threads of the program poll. These threads keep it without a lock: an approximation is enough.
class polling
{
public:
    // A call begins or ends. Times are those of std::chrono::steady_clock, in nanoseconds.
    void enter() noexcept;
    void leave() noexcept { inside_.store(false, std::memory_order_relaxed); }
    // One has found nothing. True if the thread had better let others use its processor.
    bool found_nothing(std::int64_t now) noexcept;

    bool goes_on(std::int64_t now) const noexcept { return now < until_ns_.load(std::memory_order_relaxed); }
    void has_ended() noexcept { until_ns_ = 0; }
    // How often it was called, ever, and whether a call has not returned.
    unsigned calls() const noexcept { return calls_.load(std::memory_order_relaxed); }
    bool is_inside() const noexcept { return inside_.load(std::memory_order_relaxed); }

private:
    std::atomic<std::int64_t> window_ns_{0};
    std::atomic<unsigned> in_window_{0};
    std::atomic<unsigned> calls_{0};
    std::atomic<bool> inside_{false};
    std::atomic<std::int64_t> until_ns_{0};
};

} // namespace softrdma::net
