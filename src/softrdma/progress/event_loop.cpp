// SPDX-License-Identifier: BSD-3-Clause
#include "progress/event_loop.hpp"
#include "base/barriers.hpp"
#include "base/config.hpp"
#include "base/log.hpp"
#include "base/process.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/timerfd.h>
#include <unistd.h>
#include <vector>

namespace softrdma::net
{

namespace
{

constexpr event_loop::watch_id timer_watch = 0;
constexpr std::int64_t spin_ns = 50'000; // so long the progress thread looks for the next packet before it sleeps

std::atomic<event_loop *> running{nullptr};

} // namespace

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
    std::unique_ptr<event_loop> fresh(new event_loop(first));
    if (const int error = fresh->start(); error != 0) {
        errno = error;
        return nullptr;
    }
    event_loop *started = fresh.release();
    process::add_fork_hooks({&before_fork, &after_fork_in_parent, &after_fork_in_child});
    running.store(started, std::memory_order_release);
    return started;
}

int event_loop::start()
{
    local::barriers::enroll(); // as long as there may be one thread only
    epoll_ = epoll_create1(EPOLL_CLOEXEC);
    timer_ = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    epoll_event event{.events = EPOLLIN, .data = {.u64 = timer_watch}};
    int error = 0;
    if (epoll_ < 0 || timer_ < 0 || epoll_ctl(epoll_, EPOLL_CTL_ADD, timer_, &event) != 0)
        error = errno;
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    sigdelset(&all, SIGBUS); // which a copy raises in the thread that makes it: blocked, it ends the process
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_t thread{};
    const auto entry = [](void *self) -> void * {
        static_cast<event_loop *>(self)->run();
        return nullptr;
    };
    if (error == 0)
        error = pthread_create(&thread, nullptr, entry, this);
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
    if (error == 0) {
        pthread_detach(thread);
    } else {
        close(epoll_);
        close(timer_);
    }
    return error;
}

void event_loop::run()
{
    prctl(PR_SET_TIMERSLACK, 1'000);
    first_();
    for (;;) {
        const std::int64_t from = now_ns();
        sleep();
        back_off(spins_after_sleep(now_ns() - from) ? spin() : finding::nothing);
    }
}

std::int64_t event_loop::now_ns() noexcept
{
    return clock::now().time_since_epoch().count();
}

// What comes soon after this thread went to sleep, and not while it spun, may have been held up by it: who sends it has
// waited for this processor, as peers on a busy machine do. From time to time it tries again.
bool event_loop::spins_after_sleep(std::int64_t slept_ns)
{
    constexpr std::int64_t soon_ns = 4 * spin_ns;
    constexpr unsigned left_out_at_once = 100;
    if (spun_in_vain_ && slept_ns < soon_ns)
        left_out_ = left_out_at_once;
    spun_in_vain_ = false;
    if (left_out_ == 0)
        return true;
    --left_out_;
    return false;
}

// Waking costs a sleeping thread several times what the next packet takes to come. But whoever is reading that already
// may be waiting for this processor.
finding event_loop::spin()
{
    finding found = finding::nothing;
    std::int64_t last = now_ns();
    std::int64_t now = last;
    for (; found != finding::taken && now - last < spin_ns && now > polled_until_ns_; now = now_ns()) {
        found = look(now);
        if (found == finding::something)
            last = now_ns();
    }
    spun_in_vain_ = now - last >= spin_ns;
    return found;
}

// While a thread of the program polls, every packet would wake this one for nothing: it comes back when it has slept
// without a poll, or is called back. The longer they last, the longer it may take to notice their end: waking up takes
// a virtual machine some 35 us.
void event_loop::back_off(finding last)
{
    using namespace std::chrono_literals;
    constexpr std::chrono::microseconds longest_pause = 2ms;
    std::chrono::microseconds pause = 30us;
    const lock_guard lock(rest_mutex_);
    resting_ = true;
    bool polls = last == finding::taken || now_ns() < polled_until_ns_;
    for (; polls; pause = std::min(2 * pause, longest_pause)) {
        const unsigned before = calls_;
        woken_.wait_for(rest_mutex_, pause);
        const bool called = !resting_;
        // One call may last: what it finds is received. A thread that was stopped in there is not waited for.
        polls = !called && (calls_ != before || (inside_ && pause < longest_pause));
    }
    resting_ = false;
}

void event_loop::about_to_wait()
{
    if (running.load(std::memory_order_relaxed) != this)
        return;
    polled_until_ns_ = 0;
    if (!resting_)
        return;
    {
        const lock_guard lock(rest_mutex_);
        resting_ = false;
    }
    woken_.notify_one();
}

void event_loop::note_poll(std::int64_t now)
{
    constexpr std::int64_t window_ns = 200'000;
    constexpr std::int64_t until_ns = 20'000;
    constexpr unsigned many = 8;
    constexpr unsigned yield_after = 32;
    if (const std::int64_t age = now - window_ns_.load(std::memory_order_relaxed); age > window_ns) {
        window_ns_.store(now, std::memory_order_relaxed);
        // Who has polled until now is not suspected of having stopped.
        const bool goes_on = age < 2 * window_ns && polls_.load(std::memory_order_relaxed) >= many;
        polls_.store(goes_on ? many : 0, std::memory_order_relaxed);
    }
    const unsigned polls = polls_.fetch_add(1, std::memory_order_relaxed) + 1;
    if (polls < many)
        return;
    // Programs that wait for memory to change poll no more.
    polled_until_ns_.store(now + until_ns, std::memory_order_relaxed);
    // What the program waits for may need this processor. Who looks into memory is not likely to wait for long.
    if (polls % yield_after == 0 && !comes_in_memory_.load(std::memory_order_relaxed))
        sched_yield();
}

void event_loop::poll()
{
    if (running.load(std::memory_order_relaxed) != this)
        return;
    // To ask the clock and the kernel takes longer than what comes in memory takes to come.
    constexpr unsigned looks_for_one_at_all = 8;
    const unsigned turn = turn_.load(std::memory_order_relaxed);
    turn_.store(turn + 1, std::memory_order_relaxed);
    if (comes_in_memory_.load(std::memory_order_relaxed) && turn % looks_for_one_at_all != 0) {
        look_where_expected();
        return;
    }
    const std::int64_t now = now_ns();
    calls_.fetch_add(1, std::memory_order_relaxed);
    inside_.store(true, std::memory_order_relaxed);
    const finding found = look(now);
    inside_.store(false, std::memory_order_relaxed);
    if (found != finding::something)
        note_poll(now);
}

// To ask where input is expected takes one system call instead of two. As long as it comes there, the others are asked
// more rarely.
finding event_loop::look(std::int64_t now)
{
    constexpr std::int64_t longest_ns = 12'000;
    constexpr std::int64_t in_memory_ns = 25'000;
    const std::int64_t between_ns = comes_in_memory_.load(std::memory_order_relaxed)
                                            ? in_memory_ns
                                            : between_dispatches_ns_.load(std::memory_order_relaxed);
    if (now >= dispatch_at_ns_.load(std::memory_order_relaxed)) {
        dispatch_at_ns_.store(now + between_ns, std::memory_order_relaxed);
        return dispatch();
    }
    const finding found = look_where_expected();
    if (found == finding::something && between_ns <= longest_ns)
        between_dispatches_ns_.store(std::min(2 * between_ns, longest_ns), std::memory_order_relaxed);
    return found;
}

finding event_loop::look_where_expected()
{
    std::shared_ptr<event_handler> handler;
    {
        const lock_guard lock(mutex_);
        handler = expected_;
    }
    if (handler == nullptr)
        return finding::nothing;
    if (comes_in_memory_.load(std::memory_order_relaxed))
        return serve(*handler, [&] { return handler->look_in_memory(); });
    return serve(*handler, [&] { return handler->look(); });
}

finding event_loop::dispatch()
{
    std::array<epoll_event, 32> events;
    finding found = look_at_memory();
    const int count = epoll_wait(epoll_, events.data(), static_cast<int>(events.size()), 0);
    for (int i = 0; i < count; ++i) {
        const finding one = handle(events[static_cast<std::size_t>(i)]);
        found = found == finding::something ? found : one;
    }
    return found;
}

// NULL after the last one.
std::shared_ptr<event_handler> event_loop::in_memory(std::size_t index)
{
    const lock_guard lock(mutex_);
    return index < in_memory_.size() ? in_memory_[index] : nullptr;
}

finding event_loop::look_at_memory()
{
    finding found = finding::nothing;
    for (std::size_t i = 0; const auto handler = in_memory(i); ++i) {
        const finding one = serve(*handler, [&] { return handler->look_in_memory(); });
        if (one == finding::something) {
            expect(handler);
            comes_in_memory_.store(true, std::memory_order_relaxed);
        }
        found = found == finding::something ? found : one;
    }
    return found;
}

bool event_loop::memory_may_sleep()
{
    bool may = true;
    for (std::size_t i = 0; const auto handler = in_memory(i); ++i)
        may = !handler->about_to_sleep() && may;
    return may;
}

// Until there is something that no polling thread of the program will find.
void event_loop::sleep()
{
    if (!memory_may_sleep()) {
        spun_in_vain_ = false;
        if (now_ns() >= polled_until_ns_)
            look_at_memory();
        return;
    }
    epoll_event event{};
    if (epoll_wait(epoll_, &event, 1, -1) == 1 && now_ns() >= polled_until_ns_)
        handle(event);
}

finding event_loop::handle(const epoll_event &event)
{
    if (event.data.u64 == timer_watch) {
        run_timers();
        return finding::something;
    }
    std::shared_ptr<event_handler> handler;
    {
        const lock_guard lock(mutex_);
        const auto found = watched_.find(event.data.u64);
        if (found == watched_.end())
            return finding::nothing;
        handler = found->second.handler;
        if ((event.events & EPOLLIN) != 0)
            comes_in_memory_.store(false, std::memory_order_relaxed);
        if ((event.events & EPOLLIN) != 0 && expected_ != handler) {
            expected_ = handler;
            expected_now_ = handler.get();
            between_dispatches_ns_.store(shortest_ns, std::memory_order_relaxed);
        }
    }
    return serve(*handler, [&] { return handler->ready(event.events); });
}

// Where memory is missing nobody can be told: what cannot do without it gives up.
template<typename Call>
finding event_loop::serve(event_handler &handler, Call call) noexcept
{
    try {
        return call();
    } catch (const std::bad_alloc &) {
        handler.out_of_memory();
        return finding::something;
    }
}

event_loop::watch_id event_loop::watch(int fd, std::uint32_t events, std::shared_ptr<event_handler> handler)
{
    const lock_guard lock(mutex_);
    const watch_id id = next_id_++;
    epoll_event event{.events = events, .data = {.u64 = id}};
    watched_.emplace(id, watched{fd, std::move(handler)});
    if (epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) == 0)
        return id;
    watched_.erase(id);
    return 0;
}

void event_loop::change(watch_id id, std::uint32_t events)
{
    const lock_guard lock(mutex_);
    const auto found = watched_.find(id);
    epoll_event event{.events = events, .data = {.u64 = id}};
    if (found != watched_.end())
        epoll_ctl(epoll_, EPOLL_CTL_MOD, found->second.fd, &event);
}

void event_loop::unwatch(watch_id id)
{
    std::shared_ptr<event_handler> last; // destroyed after the lock is released
    const lock_guard lock(mutex_);
    const auto found = watched_.find(id);
    if (found == watched_.end())
        return;
    epoll_ctl(epoll_, EPOLL_CTL_DEL, found->second.fd, nullptr);
    last = std::move(found->second.handler);
    if (expected_ == last) {
        expected_.reset();
        expected_now_ = nullptr;
    }
    watched_.erase(found);
}

void event_loop::expect(std::shared_ptr<event_handler> handler)
{
    const lock_guard lock(mutex_);
    expected_now_ = handler.get();
    comes_in_memory_.store(false, std::memory_order_relaxed);
    expected_.swap(handler); // the former is destroyed after the lock is released
}

void event_loop::watch_memory(const std::shared_ptr<event_handler> &handler)
{
    const lock_guard lock(mutex_);
    in_memory_.push_back(handler);
}

void event_loop::unwatch_memory(const event_handler &handler)
{
    std::shared_ptr<event_handler> last; // destroyed after the lock is released
    const lock_guard lock(mutex_);
    const auto found = std::ranges::find(in_memory_, &handler, &std::shared_ptr<event_handler>::get);
    if (found == in_memory_.end())
        return;
    last = std::move(*found);
    in_memory_.erase(found);
}

void event_loop::after(std::chrono::microseconds delay, reserve::call call)
{
    const lock_guard lock(mutex_);
    timers_.emplace(clock::now() + delay, std::move(call));
    set_timer();
}

void event_loop::set_timer()
{
    itimerspec spec{};
    if (!timers_.empty()) {
        const auto wait = std::max<clock::duration>(timers_.begin()->first - clock::now(), std::chrono::nanoseconds(1));
        const auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(wait).count();
        spec.it_value = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    }
    timerfd_settime(timer_, 0, &spec, nullptr);
}

void event_loop::run_timers()
{
    decltype(timers_) due;
    {
        const lock_guard lock(mutex_);
        std::uint64_t expirations = 0;
        [[maybe_unused]] const ssize_t got = read(timer_, &expirations, sizeof(expirations));
        const auto now = clock::now();
        while (!timers_.empty() && timers_.begin()->first <= now)
            due.insert(due.end(), timers_.extract(timers_.begin()));
        set_timer();
    }
    for (const auto &[at, call] : due)
        run(call);
}

// Whatever has to happen at its time is done with memory that is kept for it; what is lost here can be done without.
void event_loop::run(const reserve::call &call) noexcept
{
    try {
        call();
    } catch (const std::bad_alloc &) {
        log::write(log::level::error, "no memory for what was to be done now");
    }
}

void event_loop::before_fork() noexcept
{
    running.load()->mutex_.lock();
}

void event_loop::after_fork_in_parent() noexcept
{
    running.load()->mutex_.unlock();
}

// The sockets belong to the parent's connections: their ends must be seen when the parent ends. The rest is left as it
// is, for the thread that it served is not here.
void event_loop::after_fork_in_child() noexcept
{
    event_loop *a = running.exchange(nullptr);
    a->mutex_.unlock();
    for (const auto &[id, w] : a->watched_)
        close(w.fd);
    close(a->epoll_);
    close(a->timer_);
}

} // namespace softrdma::net
