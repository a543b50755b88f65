// SPDX-License-Identifier: BSD-3-Clause
#include "base/log.hpp"
#include "base/assert.hpp"
#include "base/copy.hpp"
#include "base/guard.hpp"
#include "transport/rc/requester.hpp"
#include "verbs/remote_access.hpp"

namespace softrdma
{

outcome requester::rejected(const packet &p)
{
    if (p.syndrome == syndrome::unresponsive)
        return peer_has_ended();
    if (!complete_before(p.psn) || queue_.empty() || !queue_.front().has_psn() || queue_.front().psn != p.psn)
        return outcome::violation;
    if ((p.syndrome & 0xe0) == syndrome::rnr)
        return receiver_not_ready(p.syndrome & 0x1f);
    log::write(log::level::info, "queue pair %u: request rejected by the peer: completion status %d", ep_.qp->qp_num,
            static_cast<int>(status_of(p.syndrome)));
    complete_first(status_of(p.syndrome));
    return outcome::broken;
}

// Handles a peer that sends no more responses. It has acknowledged all requests that it executed.
outcome requester::peer_has_ended()
{
    if (queue_.empty() || !queue_.front().has_psn())
        return outcome::violation;
    log::write(log::level::info, "queue pair %u: no more responses: queue pair %u left the states in which it responds",
            ep_.qp->qp_num, ep_.attr.dest_qp_num);
    if (ep_.managed) {
        complete_first(IBV_WC_RETRY_EXC_ERR);
        return outcome::broken;
    }
    // The peer may exit before the local side has its last responses, because it has all data that it needs.
    peer_silent_ = peer_ended_ = true;
    ep_.path->start_timer(ep_.retry_timeout());
    return outcome::proceed;
}

outcome requester::complete_round_trip()
{
    SOFTRDMA_ASSERT(round_trips_ > 0);
    --round_trips_;
    complete_first(IBV_WC_SUCCESS);
    return advance();
}

// Places data of the response to the first request, at that offset of its list. Otherwise completes it with an error.
bool requester::place(std::uint32_t offset, std::span<const std::byte> data)
{
    gathered target;
    bool is_placed = target.collect(ep_.qp->pd, queue_.front().sg_list(), IBV_ACCESS_LOCAL_WRITE, offset, data.size());
    const std::byte *from = data.data();
    for (std::size_t i = 0; is_placed && i < target.count; ++i) {
        const iovec &to = target.segments[i];
        is_placed = guarded([&] { copy_to_place(static_cast<std::byte *>(to.iov_base), from, to.iov_len); });
        from += to.iov_len;
    }
    if (!is_placed)
        complete_first(IBV_WC_LOC_PROT_ERR);
    return is_placed;
}

outcome requester::atomic_response(const packet &p)
{
    if (!responds_to_first(p) || !queue_.front().info().atomic())
        return outcome::violation;
    return place(0, std::as_bytes(std::span(&p.swap_add, 1))) ? complete_round_trip() : outcome::broken;
}

bool requester::find_destination(const packet &partial, std::size_t bytes, gathered &destination)
{
    if (injection_ != nullptr || next_ == 0 || queue_.empty())
        return false;
    const wqe &w = queue_.front();
    return w.is_read() && w.psn == partial.psn && is_read_response(partial.op) &&
           destination.collect(ep_.qp->pd, w.sg_list(), IBV_ACCESS_LOCAL_WRITE, w.received, bytes);
}

// The response to a FLUSH or an ATOMIC WRITE is a READ response without data.
outcome requester::read_response(const packet &p)
{
    if (!responds_to_first(p))
        return outcome::violation;
    wqe &w = queue_.front();
    if (w.info().round_trip && !w.is_read() && !w.info().atomic())
        return p.op == opcode::read_response_only && p.payload.empty() ? complete_round_trip() : outcome::violation;
    if (!w.is_read() || p.payload.size() > w.length - w.received)
        return outcome::violation;
    if (!place(w.received, p.payload))
        return outcome::broken;
    w.received += static_cast<std::uint32_t>(p.payload.size());
    SOFTRDMA_ASSERT(w.received <= w.length);
    if (p.op != opcode::read_response_last && p.op != opcode::read_response_only)
        return outcome::proceed;
    if (w.received != w.length)
        return outcome::violation;
    return complete_round_trip();
}

} // namespace softrdma
