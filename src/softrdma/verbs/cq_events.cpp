// SPDX-License-Identifier: BSD-3-Clause
#include "verbs/completion_channel.hpp"
#include "verbs/cq.hpp"

namespace softrdma
{

void completion_queue::arm(bool solicited_only)
{
    if (channel != nullptr) {
        ever_armed_.store(true, std::memory_order_seq_cst);
        static_cast<completion_channel *>(channel)->arm(
                *this, solicited_only ? interest::solicited : interest::everything);
    }
    context_of(context).engine.about_to_wait();
}

void completion_queue::acknowledge(unsigned events)
{
    acknowledge_events(*this, comp_events_completed, events);
}

void completion_queue::drain_events()
{
    const unsigned delivered = channel == nullptr ? 0 : static_cast<completion_channel *>(channel)->forget(*this);
    const unsigned reported = context_of(context).async.forget(events_);
    wait_for_acknowledgments(*this, comp_events_completed, delivered);
    wait_for_acknowledgments(*this, async_events_completed, reported);
}

bool completion_queue::has_unread(std::uint32_t qpn, inbound_source *source, const event_waiter &waiter)
{
    if (channel == nullptr || !ever_armed_.load(std::memory_order_seq_cst))
        return false;
    const pthread_t reader = static_cast<completion_channel *>(channel)->reader.load(std::memory_order_relaxed);
    if (reader == pthread_t{} ? waiter.needs_reader : reader == waiter.thread)
        return false;
    const lock_guard lock(lock_);
    for (std::uint32_t at = head_; at != tail_; ++at) {
        ibv_wc wc;
        ring_[at & mask_].get(wc);
        if (wc.qp_num == qpn)
            return true;
    }
    return source != nullptr && source->waiting();
}

} // namespace softrdma
