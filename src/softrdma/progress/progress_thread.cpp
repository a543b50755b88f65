// SPDX-License-Identifier: BSD-3-Clause
#include "progress/progress_thread.hpp"
#include "progress/event_loop.hpp"
#include "progress/polling.hpp"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <pthread.h>
#include <sys/prctl.h>

namespace softrdma
{

constexpr std::int64_t spin_ns = 50'000; // spin time before the thread sleeps

int progress_thread::start(void (*first)())
{
    first_ = first;
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    sigdelset(&all, SIGBUS); // raised by copies in this thread; if blocked, it ends the process
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
    return error == EAGAIN ? ENOMEM : error; // lack of memory or threads: programs take EAGAIN for a silent name server
}

void progress_thread::run()
{
    prctl(PR_SET_TIMERSLACK, 1'000);
    first_();
    for (;;) {
        const std::int64_t from = event_loop::now_ns();
        if (!loop_.sleep())
            last_spin_was_empty_ = false;
        back_off(spins_after_sleep(event_loop::now_ns() - from) ? spin() : poll_result::idle);
    }
}

// Decides whether to spin before the next sleep (section 2 of docs/softrdma.md).
bool progress_thread::spins_after_sleep(std::int64_t slept_ns) noexcept
{
    constexpr std::int64_t soon_ns = 4 * spin_ns;
    constexpr unsigned max_skips = 128;
    if (last_spin_was_empty_ && slept_ns < soon_ns) {
        next_skips_ = std::clamp(2 * next_skips_, 1U, max_skips);
        skips_left_ = next_skips_;
    }
    last_spin_was_empty_ = false;
    if (skips_left_ == 0)
        return true;
    --skips_left_;
    return false;
}

// Spins, because waking this thread takes several times as long as the next packet needs to arrive. Stops if another
// thread is already reading, because that thread may be waiting for this CPU.
poll_result progress_thread::spin()
{
    poll_result found = poll_result::idle;
    const std::int64_t from = event_loop::now_ns();
    std::int64_t last = from;
    std::int64_t now = from;
    for (; found != poll_result::busy && now - last < spin_ns && !polls_.is_polling(now); now = event_loop::now_ns()) {
        found = loop_.poll_sources(now);
        if (found == poll_result::progress)
            last = event_loop::now_ns();
    }
    last_spin_was_empty_ = last == from && now - last >= spin_ns;
    if (last != from)
        next_skips_ = 0;
    return found;
}

// Parks while the program polls, because packets would wake this thread unnecessarily. Resumes after a pause without a
// poll, or when unparked. The pauses grow, because waking up takes some 35 us in a virtual machine.
void progress_thread::back_off(poll_result last)
{
    using namespace std::chrono_literals;
    constexpr std::chrono::microseconds max_pause = 2ms;
    std::chrono::microseconds pause = 30us;
    const lock_guard lock(mutex_);
    parked_ = true;
    bool stay_parked = last == poll_result::busy || polls_.is_polling(event_loop::now_ns());
    for (; stay_parked; pause = std::min(2 * pause, max_pause)) {
        const unsigned before = polls_.calls();
        unparked_.wait_for(mutex_, pause);
        const bool called = !parked_;
        // A call may take long while it receives input. A thread that was stopped inside a call is not waited for.
        stay_parked = !called && (polls_.calls() != before || (polls_.is_in_poll() && pause < max_pause));
    }
    parked_ = false;
}

void progress_thread::unpark()
{
    polls_.has_ended();
    if (!parked_)
        return;
    {
        const lock_guard lock(mutex_);
        parked_ = false;
    }
    unparked_.notify_one();
}

} // namespace softrdma
