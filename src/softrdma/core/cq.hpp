// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "core/objects.hpp"

namespace softrdma
{

class completion_queue;

class completion_channel : public ibv_comp_channel
{
public:
    explicit completion_channel(ibv_context *owner);

    bool valid() const noexcept { return ready_.fd() >= 0; }
    void notify(completion_queue *cq);
    // 0, or -1 with errno from the descriptor.
    int take(completion_queue **cq);
    // Drops what is queued for `cq` and returns how many of its events take() has handed out.
    unsigned forget(completion_queue *cq);

    std::atomic<int> users{0};

private:
    event_fd ready_;
    std::mutex mutex_;
    std::deque<completion_queue *> queue_;
};

class completion_queue : public ibv_cq
{
public:
    completion_queue(ibv_context *owner, int entries, completion_channel *events, void *cookie);
    ~completion_queue();

    // On overflow the entry is lost, and so are all later ones: the queue and its queue pairs are in error.
    void push(const ibv_wc &wc, bool solicited);
    // EINVAL if more entries are waiting than would fit, or 0.
    int resize(int entries);
    bool overflowed();
    int poll(int entries, ibv_wc *wc);
    void arm(bool solicited_only);
    void acknowledge(unsigned events);
    // Waits until every event that was handed out, asynchronous ones too, has been acknowledged.
    void drain_events();

    std::atomic<int> users{0};

private:
    void overflow();

    friend class completion_channel;
    enum class notify_on {
        nothing,
        solicited,
        everything,
    };

    std::mutex mutex_;
    std::deque<ibv_wc> entries_;
    bool overflowed_ = false;
    notify_on armed_ = notify_on::nothing;
    unsigned handed_out_ = 0; // guarded by the channel's lock
};

inline completion_queue &cq_of(ibv_cq *cq) noexcept
{
    return *static_cast<completion_queue *>(cq);
}

// Takes the queue pairs of a completion queue that has overflowed to the error state.
void fail_queue_pairs_of(ibv_cq *cq);

// Lets poll() move the network forward when a queue is empty; net/ installs it.
void set_idle_hook(void (*hook)()) noexcept;

} // namespace softrdma
