// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "progress/polling.hpp"
#include "progress/progress_thread.hpp"
#include "progress/timers.hpp"
#include "progress/watch_list.hpp"
#include "transport/progress.hpp"

namespace softrdma::net
{

// What serves sockets and timers of this process: by its thread, which is started with its first user, and by threads
// of the program that poll.
class event_loop final : public progress
{
public:
    // Starts it if this process has none yet: its thread begins with `first`. NULL with errno if it cannot be started.
    static event_loop *start(void (*first)());
    // The one that this process runs; NULL with errno if it has none.
    static event_loop *get() noexcept;

    using watch_id = watch_list::watch_id;

    // Watches a descriptor level-triggered (EPOLLIN, ...). 0 if that fails, with errno.
    watch_id watch(int fd, std::uint32_t events, std::shared_ptr<event_handler> handler)
    {
        return watches_.add(fd, events, std::move(handler));
    }
    void change(watch_id id, std::uint32_t events) { watches_.change(id, events); }
    void unwatch(watch_id id) { watches_.remove(id); }
    // Input of that handler comes in memory, too: it looks whenever descriptors are looked at.
    void watch_memory(const std::shared_ptr<event_handler> &handler) { watches_.add_in_memory(handler); }
    void unwatch_memory(const event_handler &handler) { watches_.remove_in_memory(handler); }
    // The next input most likely comes there.
    void expect(std::shared_ptr<event_handler> handler);
    bool expects(const event_handler &handler) const noexcept { return watches_.expects(handler); }

    void after(std::chrono::microseconds delay, reserve::call call) { timers_.add(delay, std::move(call)); }

    bool poll() override;
    void about_to_wait() override;
    using progress::defer;
    void defer(reserve::call call, std::chrono::microseconds delay) override { after(delay, std::move(call)); }

private:
    friend class progress_thread;

    event_loop() noexcept : thread_(*this, polls_) {}
    int start_thread(void (*first)());
    void pause(polling::pause how);
    finding dispatch();
    finding look(std::int64_t now);
    finding look_where_expected();
    finding look_at_memory();
    bool memory_may_sleep();
    finding handle(const epoll_event &event);
    // Of the thread, until there is something that no polling thread of the program will find. False if that was there
    // already.
    bool sleep();
    template<typename Call>
    static finding serve(event_handler &handler, Call call) noexcept;
    static void before_fork() noexcept;
    static void after_fork_in_parent() noexcept;
    static void after_fork_in_child() noexcept;

    static std::int64_t now_ns() noexcept;

    timers timers_;
    watch_list watches_;
    polling polls_;
    // When and where to look next. Kept by the threads that look; an approximation is enough.
    std::atomic<bool> comes_in_memory_{false}; // the last input that was found
    std::atomic<unsigned> turn_{0};
    std::atomic<std::int64_t> dispatch_at_ns_{0};
    static constexpr std::int64_t shortest_ns = 1'500;
    std::atomic<std::int64_t> between_dispatches_ns_{shortest_ns};
    progress_thread thread_;
};

} // namespace softrdma::net
