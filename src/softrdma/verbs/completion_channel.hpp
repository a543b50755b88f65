// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "verbs/objects.hpp"

#include <vector>

namespace softrdma
{

class completion_queue;

class completion_channel : public ibv_comp_channel
{
public:
    explicit completion_channel(ibv_context *owner);

    bool valid() const noexcept { return ready_.fd() >= 0; }
    void attach(completion_queue *cq);
    void notify(completion_queue *cq) noexcept;
    // 0, or -1 with errno from the descriptor.
    int take(completion_queue **cq);
    // Drops what is queued for `cq` and returns how many of its events take() has handed out.
    unsigned forget(completion_queue *cq);
    void detach(completion_queue *cq);

    std::atomic<int> users{0};

private:
    struct listed {
        completion_queue *cq;
        unsigned handed_out; // of its events
    };
    completion_queue *next() REQUIRES(mutex_);

    event_fd ready_;
    ordered_mutex mutex_{lock_level::events};
    std::vector<listed> queues_ GUARDED_BY(mutex_); // whoever completes something there says so in shared memory
    std::size_t latest_ GUARDED_BY(mutex_) = 0;     // of them, that had an event
};

} // namespace softrdma
