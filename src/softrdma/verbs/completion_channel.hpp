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
    completion_queue *next_locked();

    event_fd ready_;
    std::mutex mutex_;
    std::vector<completion_queue *> queues_; // whoever completes something there says so in shared memory
    std::size_t latest_ = 0;                 // of them, that had an event
};

} // namespace softrdma
