// SPDX-License-Identifier: BSD-3-Clause
#include "progress/progress_thread.hpp"
#include "progress/event_loop.hpp"
#include "progress/polling.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <pthread.h>
#include <sys/prctl.h>

namespace softrdma::net
{

namespace
{

constexpr std::int64_t spin_ns = 50'000; // so long the thread looks for the next packet before it sleeps

} // namespace

int progress_thread::start(void (*first)())
{
    first_ = first;
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    sigdelset(&all, SIGBUS); // which a copy raises in the thread that makes it: blocked, it ends the process
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread{};
    const auto entry = [](void *self) -> void * {
        static_cast<progress_thread *>(self)->run();
        return nullptr;
    };
    const int error = pthread_create(&thread, nullptr, entry, this);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (error == 0)
        pthread_detach(thread);
    return error;
}

void progress_thread::run()
{
    prctl(PR_SET_TIMERSLACK, 1'000);
    first_();
    for (;;) {
        const std::int64_t from = event_loop::now_ns();
        if (!loop_.sleep())
            spin_found_nothing_ = false;
        back_off(spins_after_sleep(event_loop::now_ns() - from) ? spin() : finding::nothing);
    }
}

// What comes soon after this thread went to sleep, and not while it spun, may have been held up by it: who sends it has
// waited for this processor, as peers on a busy machine do. Each time that this is seen again, twice as many spins are
// left out as the last time, until one finds something.
bool progress_thread::spins_after_sleep(std::int64_t slept_ns) noexcept
{
    constexpr std::int64_t soon_ns = 4 * spin_ns;
    constexpr unsigned most_left_out = 128;
    if (spin_found_nothing_ && slept_ns < soon_ns) {
        to_leave_out_ = std::clamp(2 * to_leave_out_, 1U, most_left_out);
        left_out_ = to_leave_out_;
    }
    spin_found_nothing_ = false;
    if (left_out_ == 0)
        return true;
    --left_out_;
    return false;
}

// Waking costs a sleeping thread several times what the next packet takes to come. But whoever is reading that already
// may be waiting for this processor.
finding progress_thread::spin()
{
    finding found = finding::nothing;
    const std::int64_t from = event_loop::now_ns();
    std::int64_t last = from;
    std::int64_t now = from;
    for (; found != finding::taken && now - last < spin_ns && !polls_.goes_on(now); now = event_loop::now_ns()) {
        found = loop_.look(now);
        if (found == finding::something)
            last = event_loop::now_ns();
    }
    spin_found_nothing_ = last == from && now - last >= spin_ns;
    if (last != from)
        to_leave_out_ = 0;
    return found;
}

// While a thread of the program polls, every packet would wake this one for nothing: it comes back when it has slept
// without a poll, or is called back. The longer they last, the longer it may take to notice their end: waking up takes
// a virtual machine some 35 us.
void progress_thread::back_off(finding last)
{
    using namespace std::chrono_literals;
    constexpr std::chrono::microseconds longest_pause = 2ms;
    std::chrono::microseconds pause = 30us;
    const lock_guard lock(mutex_);
    resting_ = true;
    bool rests = last == finding::taken || polls_.goes_on(event_loop::now_ns());
    for (; rests; pause = std::min(2 * pause, longest_pause)) {
        const unsigned before = polls_.calls();
        woken_.wait_for(mutex_, pause);
        const bool called = !resting_;
        // One call may last: what it finds is received. A thread that was stopped in there is not waited for.
        rests = !called && (polls_.calls() != before || (polls_.is_inside() && pause < longest_pause));
    }
    resting_ = false;
}

void progress_thread::come_back()
{
    polls_.has_ended();
    if (!resting_)
        return;
    {
        const lock_guard lock(mutex_);
        resting_ = false;
    }
    woken_.notify_one();
}

} // namespace softrdma::net
