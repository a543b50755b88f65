// SPDX-License-Identifier: BSD-3-Clause
// Completions that the program has not read yet.
#include "verbs/completion_channel.hpp"
#include "verbs/cq.hpp"
#include "verbs/qp.hpp"

namespace softrdma
{

bool completion_queue::has_unread(std::uint32_t qpn, inbound_source *source, const event_taker &taker)
{
    if (channel == nullptr || !ever_armed_.load(std::memory_order_seq_cst))
        return false;
    const pthread_t reader = static_cast<completion_channel *>(channel)->reader.load(std::memory_order_relaxed);
    if (reader == pthread_t{} ? taker.needs_reader : reader == taker.thread)
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

bool queue_pair::has_unread_completions(const event_taker &taker)
{
    const lock_guard lock(lock_);
    if (destroyed_)
        return false;
    const std::uint32_t number = qp_base.qp_num;
    return delays_flush_ != nullptr || cq_of(qp_base.recv_cq).has_unread(number, &ring_, taker) ||
           (qp_base.send_cq != qp_base.recv_cq && cq_of(qp_base.send_cq).has_unread(number, nullptr, taker));
}

} // namespace softrdma
