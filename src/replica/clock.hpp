// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <cstdint>
#include <ctime>

namespace replica
{

// Milliseconds of a clock that nobody sets.
inline std::int64_t now_ms()
{
    timespec now{};
    clock_gettime(CLOCK_MONOTONIC, &now);
    return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1000000;
}

// The moment until which something may take; 0 milliseconds from now on mean for ever.
class deadline
{
public:
    explicit deadline(int timeout_ms) : at_(timeout_ms == 0 ? never : now_ms() + timeout_ms) {}
    // Like this deadline, but ends early if the descriptor becomes readable; waits for a descriptor poll both.
    deadline(const deadline &of, int interrupt_fd) : at_(of.at_), interrupt_fd_(interrupt_fd) {}

    // What poll() takes: at least 0, -1 for ever.
    int left_ms() const
    {
        if (at_ == never)
            return -1;
        const std::int64_t left = at_ - now_ms();
        return left < 0 ? 0 : static_cast<int>(left);
    }
    // Returns a deadline after the first of n equal parts of the remaining time.
    deadline share(int parts) const
    {
        deadline first = *this;
        if (at_ != never)
            first.at_ = now_ms() + std::max(1, left_ms() / parts);
        return first;
    }
    bool passed() const { return at_ != never && now_ms() >= at_; }
    // The value -1 is ignored by poll().
    int interrupt_fd() const { return interrupt_fd_; }

private:
    static constexpr std::int64_t never = -1;
    std::int64_t at_;
    int interrupt_fd_ = -1;
};

} // namespace replica
