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
    const lock_guard lock(mutex_);
    queues_.push_back({cq, 0});
}

void completion_channel::detach(completion_queue *cq)
{
    const lock_guard lock(mutex_);
    std::erase_if(queues_, [cq](const listed &l) { return l.cq == cq; });
}

void completion_channel::notify(completion_queue *cq) noexcept
{
    cq->shared().fired.fetch_add(1, std::memory_order_acq_rel);
    ready_.put();
}

// In turn, so that a busy queue leaves the others theirs.
completion_queue *completion_channel::next()
{
    for (std::size_t i = 0; i < queues_.size(); ++i) {
        latest_ = (latest_ + 1) % queues_.size();
        listed &l = queues_[latest_];
        auto &fired = l.cq->shared().fired;
        if (fired.load(std::memory_order_acquire) != 0) {
            fired.fetch_sub(1, std::memory_order_acq_rel);
            ++l.handed_out;
            return l.cq;
        }
    }
    return nullptr;
}

int completion_channel::take(completion_queue **cq)
{
    for (;;) {
        if (ready_.take(&context_of(context).mover) != 0)
            return -1;
        const lock_guard lock(mutex_);
        *cq = next();
        if (*cq != nullptr)
            return 0;
    }
}

unsigned completion_channel::forget(completion_queue *cq)
{
    const lock_guard lock(mutex_);
    const auto fired = cq->shared().fired.exchange(0, std::memory_order_acq_rel);
    ready_.withdraw(fired);
    return std::ranges::find(queues_, cq, &listed::cq)->handed_out;
}

} // namespace softrdma
