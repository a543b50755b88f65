// SPDX-License-Identifier: BSD-3-Clause
#include "verbs/completion_channel.hpp"
#include "verbs/cq.hpp"

#include <algorithm>

namespace softrdma
{

completion_channel::completion_channel(ibv_context *owner) : ibv_comp_channel{}
{
    context = owner;
    fd = ready_.fd();
}

void completion_channel::attach(completion_queue *cq)
{
    const std::lock_guard lock(mutex_);
    queues_.push_back(cq);
}

void completion_channel::detach(completion_queue *cq)
{
    const std::lock_guard lock(mutex_);
    std::erase(queues_, cq);
}

void completion_channel::notify(completion_queue *cq) noexcept
{
    cq->shared().fired.fetch_add(1, std::memory_order_acq_rel);
    ready_.put();
}

// In turn, so that a busy queue leaves the others theirs.
completion_queue *completion_channel::next_locked()
{
    for (std::size_t i = 0; i < queues_.size(); ++i) {
        latest_ = (latest_ + 1) % queues_.size();
        auto &fired = queues_[latest_]->shared().fired;
        if (fired.load(std::memory_order_acquire) != 0) {
            fired.fetch_sub(1, std::memory_order_acq_rel);
            return queues_[latest_];
        }
    }
    return nullptr;
}

int completion_channel::take(completion_queue **cq)
{
    for (;;) {
        if (ready_.take(&context_of(context).mover) != 0)
            return -1;
        const std::lock_guard lock(mutex_);
        *cq = next_locked();
        if (*cq == nullptr)
            continue;
        ++(*cq)->handed_out_;
        return 0;
    }
}

unsigned completion_channel::forget(completion_queue *cq)
{
    const std::lock_guard lock(mutex_);
    const auto fired = cq->shared().fired.exchange(0, std::memory_order_acq_rel);
    ready_.withdraw(fired);
    return cq->handed_out_;
}

} // namespace softrdma
