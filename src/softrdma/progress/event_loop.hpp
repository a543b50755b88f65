// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "progress/polling.hpp"
#include "progress/progress_thread.hpp"
#include "progress/timers.hpp"
#include "progress/watch_list.hpp"
#include "transport/progress.hpp"

namespace softrdma
{

// Serves sockets and timers, by its own thread, started with its first user, and by polling threads of the program.
class event_loop final : public progress
{
public:
    // Starts the loop unless it runs; its thread first calls `first`. Returns NULL and sets errno on error.
    static event_loop *start(void (*first)());
    static event_loop *get() noexcept; // NULL, with errno set, if this process has none

    using watch_id = watch_list::watch_id;

    // Watches a descriptor level-triggered (EPOLLIN, ...). Returns 0 and sets errno on error.
    watch_id watch(int fd, std::uint32_t events, std::shared_ptr<event_handler> handler)
    {
        return watches_.add(fd, events, std::move(handler));
    }
    void change(watch_id id, std::uint32_t events) { watches_.change(id, events); }
    void unwatch(watch_id id) { watches_.remove(id); }
    // Adds a handler with input in memory: it is polled whenever descriptors are polled.
    void watch_memory(const std::shared_ptr<event_handler> &handler) { watches_.add_in_memory(handler); }
    void unwatch_memory(const event_handler &handler) { watches_.remove_in_memory(handler); }
    void expect(std::shared_ptr<event_handler> handler); // marks the handler that most likely has the next input
    bool expects(const event_handler &handler) const noexcept { return watches_.expects(handler); }

    void after(std::chrono::microseconds delay, reserve::call call)
    {
        defer(reserve::prepared_call(std::move(call)), delay);
    }

    bool poll() override;
    void about_to_wait() override;
    using progress::defer;
    void defer(reserve::prepared_call call, std::chrono::microseconds delay) noexcept override
    {
        timers_.add(delay, std::move(call));
    }

private:
    friend class progress_thread;

    event_loop() noexcept : thread_(*this, polls_) {}
    int start_thread(void (*first)());
    void pause(polling::pause how);
    poll_result dispatch();
    poll_result poll_sources(std::int64_t now);
    poll_result poll_expected();
    poll_result poll_all_memory();
    bool memory_may_sleep();
    poll_result handle(const epoll_event &event);
    // Sleeps until input that no polling thread will find. Returns false if there was input already.
    bool sleep();
    template<typename Call>
    static poll_result serve(event_handler &handler, Call call) noexcept;
    static void before_fork() noexcept;
    static void after_fork_in_parent() noexcept;
    static void after_fork_in_child() noexcept;

    static std::int64_t now_ns() noexcept { return std::chrono::steady_clock::now().time_since_epoch().count(); }

    timers timers_;
    watch_list watches_;
    polling polls_;
    // Schedule of the polls. The polling threads update it without a lock: an approximation is enough.
    std::atomic<bool> memory_active_{false}; // the last input was in memory
    std::atomic<unsigned> turn_{0};
    std::atomic<std::int64_t> dispatch_at_ns_{0};
    static constexpr std::int64_t min_interval_ns = 1'500;
    std::atomic<std::int64_t> between_dispatches_ns_{min_interval_ns};
    progress_thread thread_;
};

} // namespace softrdma
