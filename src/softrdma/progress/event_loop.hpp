// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/lock.hpp"
#include "transport/progress.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

struct epoll_event;

namespace softrdma::net
{

enum class finding {
    nothing,
    something,
    taken, // by another thread, which is at it
};

class event_handler
{
public:
    virtual ~event_handler() = default;
    // Called by the progress thread or by a polling thread, with no lock held, possibly by several threads at once.
    virtual finding ready(std::uint32_t events) = 0;
    // Looks for input without having been told of any.
    virtual finding look() { return finding::nothing; }
    // The same in memory only, without a call of the kernel.
    virtual finding look_in_memory() { return finding::nothing; }
    // Of one that finds input there: the progress thread is going to sleep, and what comes from now on has to wake
    // it through a descriptor. True if something is there already.
    virtual bool about_to_sleep() { return false; }
    // One of the others has failed for want of memory. Called by the same thread, which holds no lock any more.
    virtual void out_of_memory() noexcept {}
};

// The thread that serves sockets and timers of this process, started with its first user. All signals but SIGBUS are
// blocked in it.
class event_loop final : public progress
{
public:
    // Starts it if this process has none yet: its thread begins with `first`. NULL with errno if it cannot be started.
    static event_loop *start(void (*first)());
    // The one that this process runs; NULL with errno if it has none.
    static event_loop *get() noexcept;

    using watch_id = std::uint64_t;

    // Watches a descriptor level-triggered (EPOLLIN, ...). 0 if that fails, with errno.
    watch_id watch(int fd, std::uint32_t events, std::shared_ptr<event_handler> handler);
    void change(watch_id id, std::uint32_t events);
    void unwatch(watch_id id);
    // Input of that handler comes in memory, too: it looks whenever descriptors are looked at.
    void watch_memory(const std::shared_ptr<event_handler> &handler);
    void unwatch_memory(const event_handler &handler);
    // The next input most likely comes there.
    void expect(std::shared_ptr<event_handler> handler);
    bool expects(const event_handler &handler) const noexcept { return expected_now_.load() == &handler; }

    void after(std::chrono::microseconds delay, reserve::call call);

    void poll() override;
    void about_to_wait() override;
    using progress::defer;
    void defer(reserve::call call, std::chrono::microseconds delay) override { after(delay, std::move(call)); }

private:
    using clock = std::chrono::steady_clock;
    struct watched {
        int fd;
        std::shared_ptr<event_handler> handler;
    };

    explicit event_loop(void (*first)()) noexcept : first_(first) {}
    int start();
    void run();
    finding dispatch();
    finding look(std::int64_t now);
    finding look_where_expected();
    finding look_at_memory();
    bool memory_may_sleep();
    finding handle(const epoll_event &event);
    void sleep();
    bool spins_after_sleep(std::int64_t slept_ns);
    finding spin();
    void back_off(finding last);
    void note_poll(std::int64_t now);
    void run_timers();
    static void run(const reserve::call &call) noexcept;
    template<typename Call>
    static finding serve(event_handler &handler, Call call) noexcept;
    std::shared_ptr<event_handler> in_memory(std::size_t index) EXCLUDES(mutex_);
    void set_timer() REQUIRES(mutex_);
    // Between the first and one of the others the forking thread has the lock of the loop that runs.
    static void before_fork() noexcept NO_THREAD_SAFETY_ANALYSIS;
    static void after_fork_in_parent() noexcept NO_THREAD_SAFETY_ANALYSIS;
    static void after_fork_in_child() noexcept NO_THREAD_SAFETY_ANALYSIS;

    static std::int64_t now_ns() noexcept;

    void (*const first_)();
    int epoll_ = -1;
    int timer_ = -1;
    ordered_mutex mutex_{lock_level::tables};
    watch_id next_id_ GUARDED_BY(mutex_) = 1;
    std::unordered_map<watch_id, watched> watched_ GUARDED_BY(mutex_);
    std::vector<std::shared_ptr<event_handler>> in_memory_ GUARDED_BY(mutex_);
    std::shared_ptr<event_handler> expected_ GUARDED_BY(mutex_); // to have input next
    std::atomic<const event_handler *> expected_now_{nullptr};   // the same
    // Kept by the threads that poll; an approximation is enough.
    std::atomic<bool> comes_in_memory_{false}; // the last input that was found
    std::atomic<unsigned> turn_{0};
    std::atomic<std::int64_t> window_ns_{0};
    std::atomic<unsigned> polls_{0};
    std::atomic<unsigned> calls_{0};  // to poll, ever
    std::atomic<bool> inside_{false}; // of one
    std::atomic<std::int64_t> dispatch_at_ns_{0};
    static constexpr std::int64_t shortest_ns = 1'500;
    std::atomic<std::int64_t> between_dispatches_ns_{shortest_ns};
    std::atomic<std::int64_t> polled_until_ns_{0};
    // Of the progress thread: its last spin ended without a packet; so many times it is not to spin.
    bool spun_in_vain_ = false;
    unsigned left_out_ = 0;
    ordered_mutex rest_mutex_{lock_level::leaf};
    condition woken_;
    std::atomic<bool> resting_{false};
    // By when they run out.
    std::multimap<clock::time_point, reserve::call, std::less<>,
            reserve::allocator<std::pair<const clock::time_point, reserve::call>>>
            timers_ GUARDED_BY(mutex_);
};

} // namespace softrdma::net
