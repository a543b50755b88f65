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

void completion_channel::notify(completion_queue *cq)
{
    {
        const std::lock_guard lock(mutex_);
        queue_.push_back(cq);
    }
    ready_.put();
}

completion_queue *completion_channel::next_locked()
{
    if (!queue_.empty()) {
        completion_queue *cq = queue_.front();
        queue_.pop_front();
        return cq;
    }
    const auto fired = std::find_if(queues_.begin(), queues_.end(),
            [](const completion_queue *cq) { return cq->shared().fired.load(std::memory_order_acquire) != 0; });
    if (fired == queues_.end())
        return nullptr;
    (*fired)->shared().fired.fetch_sub(1, std::memory_order_acq_rel);
    return *fired;
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
    ready_.withdraw(std::erase(queue_, cq) + fired);
    return cq->handed_out_;
}

} // namespace softrdma
