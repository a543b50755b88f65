// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "base/clock.hpp"
#include "base/loss.hpp"
#include "group/copies.hpp"
#include "no_cancellation.hpp"

namespace group
{

// Starts a thread with all signals blocked, so that it receives no signal of the program. Throws std::system_error.
std::jthread quiet_thread(std::function<void()> f);

// Runs functions for several copies, each in its own thread, so that an unresponsive copy does not delay others.
class step
{
public:
    using deadline = replica::deadline;

    // `grace_ms`: time that optional copies get after the last required copy has responded.
    step(const deadline &until, int grace_ms);
    step(const step &) = delete;
    step &operator=(const step &) = delete;

    // Starts f for a copy, in the thread of the caller if no thread can be created. f returns whether it succeeded. It
    // must not throw, and must not wait beyond its deadline.
    void start(unsigned copy, const std::function<bool(const deadline &)> &f);
    // Waits for all copies, and returns those that succeeded. is_complete() receives those that have succeeded so far,
    // and returns true if the others are optional; without it, none is. It does not run concurrently with publish().
    copy_mask finish(const std::function<bool(copy_mask succeeded)> &is_complete = nullptr);

    // Publishes results of a copy's function to is_complete(), under its lock.
    template<class F>
    void publish(F &&f)
    {
        const std::lock_guard guard(lock_);
        f();
    }

private:
    void run(unsigned copy, const std::function<bool(const deadline &)> &f);
    void wait(std::unique_lock<std::mutex> &lock, const deadline &until);

    const no_cancellation uncanceled_; // the threads use the stack of the caller
    const deadline until_;
    const int grace_ms_;
    replica::loss interrupted_;
    std::mutex lock_;
    std::condition_variable changed_;
    copy_mask running_ = 0, succeeded_ = 0;
    std::vector<std::jthread> threads_; // the first to be destroyed
};

// Runs f for the copies, and returns those for which it returned true. A single copy uses the thread of the caller.
copy_mask run_concurrently(copy_mask copies, const replica::deadline &until, int grace_ms,
        const std::function<bool(unsigned copy, const replica::deadline &)> &f,
        const std::function<bool(copy_mask succeeded)> &is_complete = nullptr);

} // namespace group
