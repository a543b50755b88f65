// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <thread>

#include "loss.hpp"
#include "remote_copy.hpp"

namespace mirror
{

// Starts a thread with all signals blocked, so that it receives none of the program's signals.
std::jthread quiet_thread(std::function<void()> f);

// Runs a function for several targets concurrently, with one thread per target. A copy has responded if its function
// returns. An exception is stored as the problem of the copy.
class step
{
public:
    using deadline = replica::deadline;

    // Throws failure.
    explicit step(const deadline &until);
    step(const step &) = delete;
    step &operator=(const step &) = delete;

    // Starts f for a copy. f must not wait beyond its deadline.
    void start(remote_copy &c, const std::function<void(remote_copy &, const deadline &)> &f);
    // Waits for all copies. Once is_complete() returns true, the others get a tenth of the time of the step.
    // is_complete() receives the copies that have responded, and does not run concurrently with publish().
    void finish(const std::function<bool(std::uint32_t answered)> &is_complete);

    // Publishes results of a copy's function to is_complete(), under its lock.
    template<class F>
    void publish(F &&f)
    {
        const std::lock_guard hold(lock_);
        f();
    }

private:
    void wait(std::unique_lock<std::mutex> &held, const deadline &until);

    const deadline until_;
    const int grace_ms_;
    replica::loss interrupted_;
    std::mutex lock_;
    std::condition_variable changed_;
    std::uint32_t running_ = 0, answered_ = 0;
    std::vector<std::jthread> threads_; // the first to be destroyed
};

// Calls f for copies, given as bits, concurrently, and stores the newest record that they know. is_complete() is that
// of step::finish().
void query_copies(const remote_copies &copies, std::uint32_t bits, const step::deadline &until,
        replica::mirror_record &newest, const std::function<void(remote_copy &, const step::deadline &)> &f,
        const std::function<bool(std::uint32_t answered)> &is_complete);

} // namespace mirror
