// SPDX-License-Identifier: BSD-3-Clause
#include "progress/event_loop.hpp"
#include "base/or_no_memory.hpp"
#include "base/log.hpp"
#include "base/read_section.hpp"
#include "base/config.hpp"
#include "base/process.hpp"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <sched.h>

namespace softrdma
{

static std::atomic<event_loop *> running{nullptr};

event_loop *event_loop::get() noexcept
{
    event_loop *a = running.load(std::memory_order_acquire);
    if (a == nullptr)
        errno = ENODEV;
    return a;
}

event_loop *event_loop::start(void (*first)())
{
    if (event_loop *a = running.load(std::memory_order_acquire))
        return a;
    config::check();
    const process::creation lock;
    if (event_loop *a = running.load(std::memory_order_acquire))
        return a;
    std::unique_ptr<event_loop> fresh(new event_loop);
    if (const int error = fresh->start_thread(first); error != 0) {
        log::write(log::level::error, "progress thread: not started: %s (check limits of threads and descriptors)",
                strerror(error));
        return fail_with(nullptr, error);
    }
    event_loop *started = fresh.release();
    process::add_fork_hooks({&before_fork, &after_fork_in_parent, &after_fork_in_child});
    running.store(started, std::memory_order_release);
    return started;
}

int event_loop::start_thread(void (*first)())
{
    barriers::enroll(); // before the process has more threads
    if (const int error = timers_.open(); error != 0)
        return error;
    if (const int error = watches_.open(timers_.descriptor()); error != 0)
        return error;
    return thread_.start(first);
}

void event_loop::about_to_wait()
{
    if (running.load(std::memory_order_relaxed) == this)
        thread_.unpark();
}

bool event_loop::poll()
{
    if (running.load(std::memory_order_relaxed) != this)
        return false;
    // Input in memory arrives faster than the clock can be read or the kernel called, so most polls check memory only.
    constexpr unsigned polls_per_full_poll = 8;
    const unsigned turn = turn_.load(std::memory_order_relaxed);
    turn_.store(turn + 1, std::memory_order_relaxed);
    if (memory_active_.load(std::memory_order_relaxed) && turn % polls_per_full_poll != 0) {
        return poll_expected() == poll_result::progress;
    }
    if (!memory_active_.load(std::memory_order_relaxed) && polls_.skips())
        return false;
    const std::int64_t now = now_ns();
    polls_.enter();
    const poll_result found = poll_sources(now);
    polls_.leave();
    if (found == poll_result::progress) {
        polls_.on_input();
        return true;
    }
    // Does not pause while input arrives in memory, because it usually arrives soon.
    if (const auto how = polls_.on_empty_poll(now);
            how != polling::pause::none && !memory_active_.load(std::memory_order_relaxed))
        pause(how);
    return false;
}

// Releases the CPU, which the awaited thread or process may need.
void event_loop::pause(polling::pause how)
{
    constexpr std::chrono::microseconds max_sleep{100};
    const std::int64_t before = now_ns();
    if (how == polling::pause::sleep)
        watches_.sleep(max_sleep);
    else
        sched_yield();
    polls_.paused(how, now_ns() - before);
}

// Polls the expected handler, with one system call instead of two, and the others less often while it has input.
poll_result event_loop::poll_sources(std::int64_t now)
{
    constexpr std::int64_t max_interval_ns = 12'000;
    constexpr std::int64_t in_memory_ns = 25'000;
    const std::int64_t between_ns = memory_active_.load(std::memory_order_relaxed)
                                            ? in_memory_ns
                                            : between_dispatches_ns_.load(std::memory_order_relaxed);
    if (now >= dispatch_at_ns_.load(std::memory_order_relaxed)) {
        dispatch_at_ns_.store(now + between_ns, std::memory_order_relaxed);
        return dispatch();
    }
    const poll_result found = poll_expected();
    if (found == poll_result::progress && between_ns <= max_interval_ns)
        between_dispatches_ns_.store(std::min(2 * between_ns, max_interval_ns), std::memory_order_relaxed);
    return found;
}

poll_result event_loop::poll_expected()
{
    const auto handler = watches_.expected();
    if (handler == nullptr)
        return poll_result::idle;
    if (memory_active_.load(std::memory_order_relaxed))
        return serve(*handler, [&] { return handler->poll_memory(); });
    return serve(*handler, [&] { return handler->poll(); });
}

poll_result event_loop::dispatch()
{
    watch_list::event_space space;
    poll_result found = poll_all_memory();
    for (const epoll_event &event : watches_.ready(space)) {
        const poll_result one = handle(event);
        found = found == poll_result::progress ? found : one;
    }
    return found;
}

poll_result event_loop::poll_all_memory()
{
    poll_result found = poll_result::idle;
    for (std::size_t i = 0; const auto handler = watches_.in_memory(i); ++i) {
        const poll_result one = serve(*handler, [&] { return handler->poll_memory(); });
        if (one == poll_result::progress) {
            watches_.expect(handler);
            memory_active_.store(true, std::memory_order_relaxed);
        }
        found = found == poll_result::progress ? found : one;
    }
    return found;
}

bool event_loop::memory_may_sleep()
{
    bool may = true;
    for (std::size_t i = 0; const auto handler = watches_.in_memory(i); ++i)
        may = !handler->about_to_sleep() && may;
    return may;
}

bool event_loop::sleep()
{
    if (!memory_may_sleep()) {
        if (!polls_.is_polling(now_ns()))
            poll_all_memory();
        return false;
    }
    watch_list::event_space space;
    for (const epoll_event &event : watches_.wait_for_one(space)) {
        if (!polls_.is_polling(now_ns()))
            handle(event);
    }
    return true;
}

poll_result event_loop::handle(const epoll_event &event)
{
    if (event.data.u64 == watch_list::timer_watch) {
        timers_.run_due();
        return poll_result::progress;
    }
    bool newly_expected = false;
    const auto handler = watches_.find(event, newly_expected);
    if (handler == nullptr)
        return poll_result::idle;
    if ((event.events & EPOLLIN) != 0)
        memory_active_.store(false, std::memory_order_relaxed);
    if (newly_expected)
        between_dispatches_ns_.store(min_interval_ns, std::memory_order_relaxed);
    return serve(*handler, [&] { return handler->ready(event.events); });
}

// An allocation failure cannot be reported here: the handler closes or drops what needs memory.
template<typename Call>
poll_result event_loop::serve(event_handler &handler, Call call) noexcept
{
    try {
        return call();
    } catch (const std::bad_alloc &) {
        log::write(log::level::error, "connection or datagrams: dropped: out of memory");
        handler.out_of_memory();
        return poll_result::progress;
    }
}

void event_loop::expect(std::shared_ptr<event_handler> handler)
{
    watches_.expect(std::move(handler));
    memory_active_.store(false, std::memory_order_relaxed);
}

void event_loop::before_fork() noexcept
{
    running.load()->watches_.before_fork();
}

void event_loop::after_fork_in_parent() noexcept
{
    running.load()->watches_.after_fork_in_parent();
}

void event_loop::after_fork_in_child() noexcept
{
    event_loop *a = running.exchange(nullptr);
    a->watches_.after_fork_in_child();
    a->timers_.after_fork_in_child();
}

} // namespace softrdma
