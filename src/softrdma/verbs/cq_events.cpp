// SPDX-License-Identifier: BSD-3-Clause
#include "base/assert.hpp"
#include "base/log.hpp"
#include "fault/rules.hpp"
#include "verbs/completion_channel.hpp"
#include "verbs/cq.hpp"

namespace softrdma
{

void completion_queue::expect(std::int64_t entries)
{
    const lock_guard lock(lock_);
    expected_ += entries;
    SOFTRDMA_ASSERT(expected_ >= 0); // each queue pair subtracts what it has added
    count_if_needed();
}

// Counts entries only if they could overflow: a shared counter costs each message a cache line that two CPUs write.
void completion_queue::count_if_needed()
{
    shared().capacity.store(static_cast<std::uint32_t>(cqe), std::memory_order_relaxed);
    if (expected_ > cqe && !counted_) {
        shared().used.store(static_cast<std::int32_t>(count_entries()), std::memory_order_relaxed);
        shared().counted.store(1, std::memory_order_relaxed);
        counted_ = true;
    }
    update_fast_limit();
}

// Returns false if the queue is full. Corrects the shared count, which includes messages of peers that were stopped.
bool completion_queue::count_one_more() noexcept
{
    if (shared().used.fetch_add(1, std::memory_order_relaxed) < cqe)
        return true;
    const auto count = static_cast<std::int32_t>(count_entries());
    shared().used.store(count + 1, std::memory_order_relaxed);
    return count < cqe;
}

bool completion_queue::reserve_entry(std::uint32_t qpn)
{
    if (overflowed_)
        return false;
    const bool full = tail_ - head_ >= static_cast<std::uint32_t>(cqe) || (counted_ && !count_one_more());
    if (full || (fault::active() && fault::on_completion(qpn))) {
        overflow();
        return false;
    }
    return true;
}

void completion_sources::notify(ibv_cq *cq)
{
    std::vector<std::weak_ptr<completion_source>> all;
    {
        const lock_guard lock(lock_);
        all.assign(all_.begin(), all_.end());
    }
    for (const auto &weak : all) {
        if (const auto source = weak.lock())
            source->completions_lost(cq);
    }
}

void completion_queue::overflow()
{
    SOFTRDMA_ASSERT(!overflowed_); // later completions are rejected before
    overflowed_ = true;
    log::write(log::level::warn,
            "completion queue: overflow: more than %d completions (poll more often, or create it larger)", cqe);
    update_fast_limit();
    context_of(context).async.push(events_, IBV_EVENT_CQ_ERR);
    // Deferred, because the caller holds locks of the producers, or locks that follow them in the order.
    context_of(context).engine.defer(std::move(overflow_call_), std::chrono::microseconds(0));
}

void completion_queue::arm(bool solicited_only)
{
    if (channel != nullptr) {
        ever_armed_.store(true, std::memory_order_seq_cst);
        static_cast<completion_channel *>(channel)->arm(
                *this, solicited_only ? interest::solicited : interest::everything);
    }
    context_of(context).engine.about_to_wait();
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
