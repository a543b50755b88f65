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

// A thread to which the kernel delivers no signals of the program.
std::jthread quiet_thread(std::function<void()> f);

// Runs a function for several targets concurrently, with one thread per target. If the function of a copy returns, the
// copy has answered; if it throws, the exception becomes the problem of the copy.
class step
{
public:
    using deadline = replica::deadline;

    // Throws failure.
    explicit step(const deadline &until);
    step(const step &) = delete;
    step &operator=(const step &) = delete;

    // The function waits no longer than the deadline that it gets.
    void start(remote_copy &c, const std::function<void(remote_copy &, const deadline &)> &f);
    // Waits for all copies, or for those that is_complete() needs and then for a tenth of the time of the step.
    // is_complete() gets the copies that have answered, and does not run beside note().
    void finish(const std::function<bool(std::uint32_t answered)> &is_complete);

    // Publishes results of a copy's function to is_complete().
    template<class F>
    void note(F &&f)
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

} // namespace mirror
