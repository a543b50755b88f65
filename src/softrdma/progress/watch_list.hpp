// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/lock.hpp"
#include "base/spin_lock.hpp"
#include "base/unique_fd.hpp"

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <sys/epoll.h>
#include <unordered_map>
#include <vector>

namespace softrdma
{

enum class poll_result {
    idle,
    progress,
    busy, // another thread is polling
};

class event_handler
{
public:
    virtual ~event_handler() = default;
    // Called by the progress thread or by a polling thread, with no lock held, possibly by several threads at once.
    virtual poll_result ready(std::uint32_t events) = 0;
    virtual poll_result poll() { return poll_result::idle; }
    virtual poll_result poll_memory() { return poll_result::idle; }
    // The progress thread is about to sleep: later input in memory must wake it. Returns true if input arrived.
    virtual bool about_to_sleep() { return false; }
    // Called without locks, by the same thread, after another function of the handler ran out of memory.
    virtual void out_of_memory() noexcept {}
};

// Handlers of descriptors, handlers with input in memory, and the handler that probably has the next input.
class watch_list
{
public:
    using watch_id = std::uint64_t;
    static constexpr watch_id timer_watch = 0;

    // Returns 0 or an errno value. The descriptor of timers is watched as `timer_watch`.
    int open(int timer);

    watch_id add(int fd, std::uint32_t events, std::shared_ptr<event_handler> handler); // see event_loop::watch()
    void change(watch_id id, std::uint32_t events);
    void remove(watch_id id);
    void add_in_memory(const std::shared_ptr<event_handler> &handler);
    void remove_in_memory(const event_handler &handler);

    using event_space = std::array<epoll_event, 32>;
    std::span<const epoll_event> ready(event_space &space) const noexcept { return wait(space, 0); }
    std::span<const epoll_event> wait_for_one(event_space &space) const noexcept
    {
        return wait(std::span(space).first(1), -1);
    }
    void sleep(std::chrono::microseconds limit) const noexcept; // ends when a descriptor is ready
    // Returns the handler of the event; NULL if removed. With input, it likely has the next, too: `newly_expected`.
    std::shared_ptr<event_handler> find(const epoll_event &event, bool &newly_expected);
    std::shared_ptr<event_handler> in_memory(std::size_t index); // NULL after the last one

    std::shared_ptr<event_handler> expect(std::shared_ptr<event_handler> handler) noexcept; // returns the former one
    std::shared_ptr<event_handler> expected()
    {
        const lock_guard lock(expected_lock_);
        return expected_;
    }
    bool expects(const event_handler &handler) const noexcept { return expected_address_.load() == &handler; }

    void before_fork() noexcept NO_THREAD_SAFETY_ANALYSIS { mutex_.lock(); }
    void after_fork_in_parent() noexcept NO_THREAD_SAFETY_ANALYSIS { mutex_.unlock(); }
    void after_fork_in_child() noexcept NO_THREAD_SAFETY_ANALYSIS;

private:
    struct watched {
        int fd;
        std::shared_ptr<event_handler> handler;
    };

    std::span<const epoll_event> wait(std::span<epoll_event> space, int timeout) const noexcept;

    unique_fd epoll_;
    ordered_mutex mutex_{lock_level::tables};
    watch_id next_id_ GUARDED_BY(mutex_) = timer_watch + 1;
    std::unordered_map<watch_id, watched> watched_ GUARDED_BY(mutex_);
    std::vector<std::shared_ptr<event_handler>> in_memory_ GUARDED_BY(mutex_);
    // Handler expected to have input next. Each poll uses it.
    spin_lock expected_lock_{lock_level::leaf};
    std::shared_ptr<event_handler> expected_ GUARDED_BY(expected_lock_);
    std::atomic<const event_handler *> expected_address_{nullptr}; // address of expected_
};

} // namespace softrdma
