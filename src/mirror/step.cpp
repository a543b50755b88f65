// SPDX-License-Identifier: BSD-3-Clause
#include "step.hpp"

#include <chrono>
#include <csignal>

namespace mirror
{

std::jthread quiet_thread(std::function<void()> f)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    std::jthread created(std::move(f));
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    return created;
}

step::step(const deadline &until) : until_(until), grace_ms_(until.left_ms() / 10)
{
    if (const int error = interrupted_.open(); error != 0)
        throw system_failure("cannot create an event", error);
}

void step::start(remote_copy &c, const std::function<void(remote_copy &, const deadline &)> &f)
{
    publish([&] { running_ |= c.bit(); });
    threads_.push_back(quiet_thread([this, &c, &f] {
        c.answered = false;
        try {
            f(c, deadline(until_, interrupted_.fd()));
            c.answered = true;
        } catch (const failure &problem) {
            c.problem = problem;
        } catch (const std::exception &problem) {
            c.problem = failure(RPMA_MIRROR_E_SYSTEM, problem.what());
        }
        if (!c.answered)
            c.last_error = c.problem->code();
        const std::lock_guard hold(lock_);
        running_ &= ~c.bit();
        answered_ |= c.answered ? c.bit() : 0;
        changed_.notify_all();
    }));
}

void step::wait(std::unique_lock<std::mutex> &held, const deadline &until)
{
    const int left = until.left_ms();
    if (left < 0)
        changed_.wait(held);
    else
        changed_.wait_for(held, std::chrono::milliseconds(left));
}

void step::finish(const std::function<bool(std::uint32_t answered)> &is_complete)
{
    {
        std::unique_lock held(lock_);
        while (running_ != 0 && !until_.passed() && !is_complete(answered_))
            wait(held, until_);
        const deadline grace(grace_ms_ + 1);
        while (running_ != 0 && !until_.passed() && !grace.passed())
            wait(held, grace);
    }
    interrupted_.declare(ETIMEDOUT);
    threads_.clear();
}

void query_copies(const remote_copies &copies, std::uint32_t bits, const step::deadline &until,
        replica::mirror_record &newest, const std::function<void(remote_copy &, const step::deadline &)> &f,
        const std::function<bool(std::uint32_t answered)> &is_complete)
{
    step now(until);
    const std::function<void(remote_copy &, const step::deadline &)> noted = [&](remote_copy &c,
                                                                                     const step::deadline &within) {
        f(c, within);
        now.publish([&] {
            if (is_newer(c.known.committed, newest))
                newest = c.known.committed;
        });
    };
    each_copy(bits, [&](unsigned copy) { now.start(*copies[copy], noted); });
    now.finish(is_complete);
}

} // namespace mirror
