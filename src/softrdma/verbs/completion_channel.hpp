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

// The descriptor of a channel is an epoll set of the eventfds of its queues. An eventfd is enabled for one event when
// its queue is armed, and the kernel lists the queues in the order in which their events arrive. A late write of a
// sender makes the set readable only if the queue is armed again. Senders hold no lock or resource that the owner or
// other senders need.
class completion_channel : public ibv_comp_channel
{
public:
    explicit completion_channel(ibv_context *owner);

    bool valid() const noexcept { return set_.get() >= 0; }
    // Returns false and sets errno on error.
    bool attach(completion_queue &cq);
    void detach(completion_queue &cq) noexcept;
    bool has_queues() noexcept;
    // Requests one event, in addition to those that have arrived already.
    void arm(completion_queue &cq, interest in);
    // Returns 0, or -1 with errno: EAGAIN, EINTR.
    int take(completion_queue **cq);
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
    void await(completion_queue &cq) noexcept REQUIRES(mutex_);
    completion_queue *accept(void *arrived) noexcept REQUIRES(mutex_);
    completion_queue *next_arrived() noexcept REQUIRES(mutex_);
    void set_aside() REQUIRES(mutex_);
    completion_queue *deliver(completion_queue *cq) noexcept REQUIRES(mutex_);
    completion_queue *next_earlier() noexcept EXCLUDES(mutex_);

    const unique_fd set_;
    ordered_mutex mutex_{lock_level::events};
    std::unordered_map<completion_queue *, request> requests_ GUARDED_BY(mutex_);
    // Events that were not taken before their queue was armed again, and events that had arrived before them. While any
    // exist, the eventfd makes the set readable.
    std::deque<completion_queue *> earlier_ GUARDED_BY(mutex_);
    std::optional<event_fd> any_earlier_ GUARDED_BY(mutex_);
};

} // namespace softrdma
