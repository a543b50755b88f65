// SPDX-License-Identifier: BSD-3-Clause
#include "transport/rc/requester.hpp"
#include "verbs/mw.hpp"
#include "verbs/qp_object.hpp"
#include "base/log.hpp"

#include <algorithm>
#include <utility>

namespace softrdma
{

outcome requester::start_requests()
{
    awaits_memory_ = false;
    while (next_ < queue_.size() && !waiting_for_receiver_ && !peer_ended_ && !held_back()) {
        wqe &w = queue_[next_];
        SOFTRDMA_ASSERT(next_ == 0 || queue_[next_ - 1].is_sent());
        if (ep_.attr.qp_state != IBV_QPS_RTS && !w.is_started())
            return request_acknowledgment(), outcome::proceed; // a queue that is drained starts no new request
        if (w.info().local()) {
            outcome o{};
            if (!execute_local(w, o))
                return o;
            continue;
        }
        if (ep_.transport_pending || ep_.path == nullptr)
            return outcome::proceed;
        if (fault::active()) [[unlikely]] {
            outcome o{};
            if (injected(w, o))
                return request_acknowledgment(), o;
        } else if (ep_.local != nullptr && !ep_.path_lost && !is_for_network(w)) {
            awaits_memory_ = next_ == 0; // a request must not overtake those that the peer executes
            return outcome::proceed;
        }
        if (ep_.path_lost) [[unlikely]] // requests that are executed in memory were completed before
            return fail_first(IBV_WC_RETRY_EXC_ERR) ? outcome::broken : outcome::proceed;
        if (ep_.path->congested())
            return outcome::proceed;
        const bool fenced = (w.flags & IBV_SEND_FENCE) != 0 && round_trips_ > 0;
        const bool too_many_round_trips =
                w.info().round_trip && round_trips_ >= std::max<int>(ep_.attr.max_rd_atomic, 1);
        if (fenced || too_many_round_trips)
            return outcome::proceed;
        if (const outcome o = transmit(w); o != outcome::proceed || w.is_rejected())
            return o;
    }
    return outcome::proceed;
}

bool requester::execute_local(wqe &w, outcome &o)
{
    o = outcome::proceed;
    if (next_ > 0)
        return request_acknowledgment(), false;
    const auto status = window_table::instance().execute_request(object_of(ep_.qp), w);
    if (!status) {
        const bool waits_already = w.state == wqe_state::stalled;
        ep_.try_again_later(!waits_already);
        if (!waits_already)
            w.enter(wqe_state::stalled);
        waiting_for_receiver_ = true;
        return false;
    }
    complete_first(*status);
    o = *status == IBV_WC_SUCCESS ? outcome::proceed : outcome::broken;
    return *status == IBV_WC_SUCCESS;
}

// Returns whether the acknowledgment may be delayed: a WRITE follows, and no thread waits for this request.
bool requester::may_wait(const wqe &w) const noexcept
{
    const bool is_plain_write = !w.info().takes_receive && !w.info().round_trip;
    return is_plain_write && !queue_.is_signaled(w) && more_follow() && ep_.local == nullptr && !fault::active();
}

// Requests the delayed acknowledgment, because no further request follows.
void requester::request_acknowledgment()
{
    if (next_ == 0 || queue_[next_ - 1].state != wqe_state::sent_no_ack_req)
        return;
    queue_[next_ - 1].enter(wqe_state::sent);
    ep_.transmit({.op = opcode::ack_request, .psn = queue_[next_ - 1].psn});
}

outcome requester::local_error(wqe &w, ibv_wc_status status)
{
    log::write(log::level::info,
            "queue pair %u: request not sent: completion status %d (check its local keys and lengths)", ep_.qp->qp_num,
            static_cast<int>(status));
    w.reject(status); // reported in order: after the completion of all earlier requests
    request_acknowledgment();
    return &w == &queue_.front() ? (complete_first(status), outcome::broken) : outcome::proceed;
}

outcome requester::transmit(wqe &w)
{
    SOFTRDMA_ASSERT(!w.info().local()); // local requests need no peer
    if (w.is_rejected())
        return local_error(w, w.local_status);
    if (ep_.has_response_limit) [[unlikely]]
        watch_responses();
    if (!w.has_psn()) {
        w.psn = next_psn_;
        next_psn_ = (next_psn_ + 1) & psn_mask;
    }
    if (w.state != wqe_state::transmitting)
        w.enter(wqe_state::transmitting);
    if (w.late_us == wqe::response_lost) [[unlikely]]
        drop_responses_from(w.psn);
    if (w.info().round_trip)
        return transmit_round_trip(w);
    // The first segment is cut so that the following ones are aligned to 8-byte words at the target.
    std::uint32_t bytes = ep_.next_segment(w.length - w.sent);
    if (bytes < w.length - w.sent)
        bytes -= static_cast<std::uint32_t>((w.remote_addr + w.sent + bytes) % 8);
    return transmit_segment(w, bytes);
}

packet requester::round_trip_header(const wqe &w) const noexcept
{
    packet header{.psn = w.psn, .remote_addr = w.remote_addr, .rkey = w.rkey, .dma_length = w.length};
    switch (static_cast<int>(w.op)) {
    case IBV_WR_RDMA_READ:
        header.op = opcode::read_request;
        break;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
        header.op = opcode::compare_swap;
        header.compare = w.args.atomic.compare_add;
        header.swap_add = w.args.atomic.swap;
        break;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        header.op = opcode::fetch_add;
        header.swap_add = w.args.atomic.compare_add;
        break;
    case native::wr_atomic_write:
        header.op = opcode::atomic_write;
        break;
    default: {
        header.op = opcode::flush;
        header.dma_length = w.args.flush.length;
        header.placement = w.args.flush.placement;
        header.level = w.args.flush.level;
    }
    }
    return header;
}

outcome requester::transmit_round_trip(wqe &w)
{
    const iovec inlined = w.inline_data();
    gathered local;
    const bool sends = w.op == native::wr_atomic_write;
    const int access = sends ? 0 : IBV_ACCESS_LOCAL_WRITE;
    if (!local.collect(ep_.qp->pd, w.sg_list(), access, 0, w.sge_count > 0 ? w.length : 0) ||
            (sends && !local.is_there()))
        return local_error(w, IBV_WC_LOC_PROT_ERR);
    std::span<const iovec> payload;
    if (sends)
        payload = w.is_inline() ? std::span(&inlined, 1) : local.span();
    ep_.transmit(round_trip_header(w), payload, more_follow());
    w.enter(wqe_state::sent);
    ++round_trips_;
    SOFTRDMA_ASSERT(round_trips_ <= std::max<int>(ep_.attr.max_rd_atomic, 1));
    ++next_;
    return outcome::proceed;
}

opcode requester::segment_opcode(const wqe &w, std::uint32_t bytes) const noexcept
{
    const bool imm = w.info().immediate;
    const opcode message = w.info().invalidates ? opcode::send_only_inv
                           : imm                ? opcode::send_only_imm
                                                : opcode::send_only;
    const opcode whole = w.info().message() ? message : (imm ? opcode::write_only_imm : opcode::write_only);
    return part_of(whole, w.sent == 0, w.sent + bytes == w.length);
}

outcome requester::transmit_segment(wqe &w, std::uint32_t bytes)
{
    const opcode op = segment_opcode(w, bytes);
    const bool no_ack_req = may_wait(w);
    const packet header{.op = op,
            .solicited = (w.flags & IBV_SEND_SOLICITED) != 0 && is_last(op),
            .no_ack_req = no_ack_req,
            .psn = w.psn,
            .remote_addr = w.remote_addr,
            .rkey = w.rkey,
            .dma_length = w.length,
            .imm_data = w.imm_data};
    if (w.is_inline()) {
        const iovec payload{w.inline_data().iov_base, bytes};
        ep_.transmit(header, {&payload, 1}, more_follow());
    } else {
        gathered source;
        if (!source.collect(ep_.qp->pd, w.sg_list(), 0, w.sent, bytes) || !source.is_there())
            return local_error(w, IBV_WC_LOC_PROT_ERR);
        ep_.transmit(header, source.span(), more_follow());
    }
    w.sent += bytes;
    SOFTRDMA_ASSERT(w.sent <= w.length && is_last(op) == (w.sent == w.length));
    if (is_last(op)) {
        w.enter(no_ack_req ? wqe_state::sent_no_ack_req : wqe_state::sent);
        ++next_;
    }
    return outcome::proceed;
}

void requester::complete_first(ibv_wc_status status)
{
    SOFTRDMA_ASSERT(next_ <= queue_.size());
    const wqe &w = queue_.front();
    if (ep_.local != nullptr && w.has_psn() && status == IBV_WC_SUCCESS && w.info().takes_receive)
        ep_.local->peer_consumed_receive();
    responses_pending_ = responses_pending_ || (w.has_psn() && status != IBV_WC_SUCCESS);
    queue_.pop_front(status);
    if (queue_.empty())
        stop_polling_network();
    next_ -= next_ > 0 ? 1 : 0;
    awaits_memory_ = false;
    rnr_tries_ = 0;
    receive_requested_ = false;
}

outcome requester::handle_response(const packet &p)
{
    if (peer_ended_) [[unlikely]]
        return outcome::proceed;
    if (is_read_response(p.op))
        return read_response(p);
    return p.op == opcode::atomic_acknowledge ? atomic_response(p) : acknowledged(p);
}

bool requester::complete_before(std::uint32_t psn)
{
    while (!queue_.empty() && next_ > 0 && psn_after(psn, queue_.front().psn)) {
        if (queue_.front().info().round_trip)
            return false;
        complete_first(IBV_WC_SUCCESS);
    }
    return true;
}

outcome requester::acknowledged(const packet &p)
{
    if (p.syndrome != syndrome::ack)
        return rejected(p);
    if (!complete_before((p.psn + 1) & psn_mask))
        return outcome::violation;
    return advance();
}

// Continues after completions: reports a queued error that is now first, and sends requests that waited for space.
outcome requester::advance()
{
    if (!queue_.empty() && next_ == 0 && queue_.front().is_rejected()) {
        complete_first(queue_.front().local_status);
        return outcome::broken;
    }
    return pump();
}

bool requester::fail_first(ibv_wc_status status)
{
    if (queue_.empty() || queue_.front().info().local())
        return false;
    complete_first(status);
    return true;
}

void requester::flush()
{
    while (!queue_.empty())
        complete_first(IBV_WC_WR_FLUSH_ERR);
    stop_waiting();
}

bool requester::reset()
{
    const bool all_received =
            !std::exchange(responses_pending_, false) && !(!queue_.empty() && queue_.front().has_psn());
    queue_.clear();
    stop_polling_network();
    awaits_memory_ = false;
    next_ = 0;
    round_trips_ = 0;
    rnr_tries_ = 0;
    stop_waiting();
    return all_received;
}

} // namespace softrdma
