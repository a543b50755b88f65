// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>
#include <ctime>

namespace replica
{

inline std::int64_t now_ns(clockid_t clock = CLOCK_MONOTONIC)
{
    timespec now{};
    clock_gettime(clock, &now);
    return std::int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

inline std::int64_t now_ms()
{
    return now_ns() / 1'000'000;
}

// Returns the time since the boot, which continues while this machine is suspended: for what other machines decide.
inline std::int64_t boot_time_ms()
{
    return now_ns(CLOCK_BOOTTIME) / 1'000'000;
}

// Point in time that limits a wait. A timeout of 0 ms means no limit.
class deadline
{
public:
    explicit deadline(int timeout_ms) : deadline(timeout_ms, timeout_ms == 0 ? 0 : now_ms()) {}
    deadline(int timeout_ms, std::int64_t start_ms) : at_(timeout_ms == 0 ? never : start_ms + timeout_ms) {}
    // Copies a deadline and lets it end when `interrupt_fd` becomes readable. Waits for a descriptor poll both.
    deadline(const deadline &original, int interrupt_fd) : at_(original.at_), interrupt_fd_(interrupt_fd) {}

    // Returns the remaining time in milliseconds for poll(): at least 0, or -1 without a limit.
    int left_ms() const
    {
        if (at_ == never)
            return -1;
        const std::int64_t left = at_ - now_ms();
        return left < 0 ? 0 : static_cast<int>(left);
    }
    // Returns a deadline after the first of `parts` equal parts of the remaining time.
    deadline share(int parts) const
    {
        deadline first = *this;
        if (at_ != never)
            first.at_ = now_ms() + std::max(1, left_ms() / parts);
        return first;
    }
    bool passed() const { return at_ != never && now_ms() >= at_; }
    int interrupt_fd() const { return interrupt_fd_; }

private:
    static constexpr std::int64_t never = -1;
    std::int64_t at_;
    int interrupt_fd_ = -1;
};

} // namespace replica
