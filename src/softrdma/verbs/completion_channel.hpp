// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "transport/shared_layout.hpp"
#include "verbs/objects.hpp"

#include <deque>
#include <optional>
#include <unordered_map>

namespace softrdma
{

class completion_queue;

// Completion channel: an epoll set of the eventfds of its queues. Arming a queue enables its eventfd for one event, and
// the kernel lists queues in the order of their events. Late writes of senders have no effect until the next arming.
class completion_channel : public ibv_comp_channel
{
public:
    explicit completion_channel(ibv_context *owner);

    bool valid() const noexcept { return set_.get() >= 0; }
    bool attach(completion_queue &cq);
    void detach(completion_queue &cq) noexcept;
    bool has_queues() noexcept
    {
        const lock_guard lock(mutex_);
        return !requests_.empty();
    }
    void arm(completion_queue &cq, interest in);
    int take(completion_queue **cq); // returns 0, or -1 with errno: EAGAIN, EINTR
    // Drops the events of `cq` that take() has not returned yet. Returns the number that take() has returned.
    unsigned forget(completion_queue &cq) noexcept;

    std::atomic<pthread_t> reader{}; // thread that last requested an event; zero: none yet

private:
    struct request {
        std::uint64_t number = 0; // number of the latest arming
        interest in = interest::nothing;
        unsigned delivered = 0; // number of events returned in total
    };
    void publish(completion_queue &cq, const request &latest) noexcept REQUIRES(mutex_);
    void enable_event(completion_queue &cq) noexcept REQUIRES(mutex_);
    completion_queue *accept(void *arrived) noexcept REQUIRES(mutex_);
    completion_queue *next_arrived() noexcept REQUIRES(mutex_);
    void save_arrived_events() REQUIRES(mutex_);
    completion_queue *deliver(completion_queue *cq) noexcept REQUIRES(mutex_);
    completion_queue *next_earlier() noexcept EXCLUDES(mutex_);

    const unique_fd set_;
    ordered_mutex mutex_{lock_level::events};
    std::unordered_map<completion_queue *, request> requests_ GUARDED_BY(mutex_);
    // Arrived events that were not taken before their queue was armed again, and those before them.
    std::deque<completion_queue *> earlier_ GUARDED_BY(mutex_);
    std::optional<event_fd> any_earlier_ GUARDED_BY(mutex_); // makes the set readable while there are any
};

} // namespace softrdma
