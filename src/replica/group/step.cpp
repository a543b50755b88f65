// SPDX-License-Identifier: BSD-3-Clause
#include "group/step.hpp"

#include <chrono>
#include <csignal>
#include <pthread.h>
#include <system_error>

namespace group
{

std::jthread quiet_thread(std::function<void()> f)
{
    // Restores the signals, also if the thread cannot be created.
    struct signals_blocked {
        signals_blocked()
        {
            sigset_t all;
            sigfillset(&all);
            pthread_sigmask(SIG_SETMASK, &all, &before);
        }
        ~signals_blocked() { pthread_sigmask(SIG_SETMASK, &before, nullptr); }
        sigset_t before;
    } const blocked;
    return std::jthread(std::move(f));
}

// Without an event, each copy gets the whole time.
step::step(const deadline &until, int grace_ms) : until_(until), grace_ms_(grace_ms)
{
    (void)interrupted_.open();
}

void step::run(unsigned copy, const std::function<bool(const deadline &)> &f)
{
    const bool succeeded = f(deadline(until_, interrupted_.fd()));
    const std::lock_guard guard(lock_);
    running_ &= ~bit_of(copy);
    succeeded_ |= succeeded ? bit_of(copy) : 0;
    changed_.notify_all();
}

void step::start(unsigned copy, const std::function<bool(const deadline &)> &f)
{
    publish([&] { running_ |= bit_of(copy); });
    try {
        threads_.push_back(quiet_thread([this, copy, f] { run(copy, f); }));
    } catch (const std::system_error &) {
        run(copy, f);
    }
}

void step::wait(std::unique_lock<std::mutex> &lock, const deadline &until)
{
    const int left = until.left_ms();
    if (left < 0)
        changed_.wait(lock);
    else
        changed_.wait_for(lock, std::chrono::milliseconds(left));
}

copy_mask step::finish(const std::function<bool(copy_mask succeeded)> &is_complete)
{
    {
        std::unique_lock lock(lock_);
        while (running_ != 0 && !until_.passed() && !(is_complete && is_complete(succeeded_)))
            wait(lock, until_);
        const deadline grace(grace_ms_ + 1);
        while (running_ != 0 && !until_.passed() && !grace.passed())
            wait(lock, grace);
    }
    interrupted_.declare(ETIMEDOUT);
    threads_.clear();
    return succeeded_;
}

copy_mask run_concurrently(copy_mask copies, const replica::deadline &until, int grace_ms,
        const std::function<bool(unsigned copy, const replica::deadline &)> &f,
        const std::function<bool(copy_mask succeeded)> &is_complete)
{
    if (std::has_single_bit(copies))
        return f(first_of(copies), until) ? copies : 0;
    step concurrently(until, grace_ms);
    each_copy(copies, [&](unsigned copy) {
        concurrently.start(copy, [&f, copy](const replica::deadline &within) { return f(copy, within); });
    });
    return concurrently.finish(is_complete);
}

} // namespace group
