// SPDX-License-Identifier: BSD-3-Clause
#include "transport/tcp/requester.hpp"
#include "base/copy.hpp"
#include "pmem/policy.hpp"
#include "transport/shm/local_path.hpp"
#include "wire/rnr_timer.hpp"
#include "base/log.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace softrdma
{

namespace
{

bool is_wrong_length(const request_kind &kind, std::uint64_t length) noexcept
{
    return length < kind.least || length > kind.most;
}

} // namespace

int requester::check(const ibv_send_wr &wr) const noexcept
{
    const request_kind &kind = kind_of(wr.opcode);
    if (!kind.known || (kind.native && !pmem::native_verbs()))
        return EOPNOTSUPP;
    if (wr.num_sge < 0 || static_cast<std::uint32_t>(wr.num_sge) > ep_.cap.max_send_sge)
        return EINVAL;
    if ((wr.send_flags & IBV_SEND_INLINE) == 0)
        return 0;
    const bool fits = length_of(pieces_of(wr)) <= inline_room(wr.opcode, ep_.cap.max_inline_data);
    return kind.scatters || !fits ? EINVAL : 0;
}

bool requester::post(const ibv_send_wr &wr, std::uint64_t length, local_path *at_once)
{
    ++posted_;
    // What cannot be done at once, and every failure, takes the way through the queue.
    const auto bytes = static_cast<std::uint32_t>(length);
    if (at_once == nullptr || is_wrong_length(kind_of(wr.opcode), length) ||
            at_once->execute(wr, bytes) != execution::done) {
        enqueue(wr, length);
        return false;
    }
    complete(wr.wr_id, wr.opcode, bytes, wr.send_flags);
    return true;
}

void requester::enqueue(const ibv_send_wr &wr, std::uint64_t length)
{
    const request_kind &kind = kind_of(wr.opcode);
    const bool copies = (wr.send_flags & IBV_SEND_INLINE) != 0;
    work &w = queue_.emplace_back();
    w.wr_id = wr.wr_id;
    w.opcode = wr.opcode;
    w.flags = wr.send_flags;
    // What an opcode does not use, programs leave uninitialised.
    w.imm_data = kind.immediate ? wr.imm_data : 0;
    w.remote_addr = kind.message ? 0 : wr.wr.rdma.remote_addr; // the atomic's is at the same place
    w.rkey = kind.message ? 0 : kind.wide ? wr.wr.atomic.rkey : wr.wr.rdma.rkey;
    w.compare_add = kind.wide ? wr.wr.atomic.compare_add : 0;
    w.swap = kind.wide ? wr.wr.atomic.swap : 0;
    w.length = static_cast<std::uint32_t>(length);
    w.sent = w.received = 0;
    w.numbered = w.unhurried = false;
    w.judged = w.answer_lost = false;
    w.late_us = 0;
    w.local_status = is_wrong_length(kind, length) ? IBV_WC_LOC_LEN_ERR : IBV_WC_SUCCESS;
    w.sge_count = copies ? 0 : wr.num_sge;
    std::copy_n(wr.sg_list, w.sge_count, w.sges.begin());
    std::byte *to = w.inlined.data();
    for (int i = 0; copies && i < wr.num_sge; ++i) {
        memcpy(to, reinterpret_cast<const void *>(wr.sg_list[i].addr), wr.sg_list[i].length);
        to += wr.sg_list[i].length;
    }
}

outcome requester::start_requests()
{
    while (next_ < queue_.size() && !waiting_for_receiver_ && !ep_.undecided && ep_.path != nullptr && !held_back()) {
        work &w = queue_[next_];
        if (ep_.attr.qp_state != IBV_QPS_RTS && !w.numbered && !stalled_)
            return ask_for_answers(), outcome::proceed; // a queue that is drained starts nothing new
        if (fault::active()) [[unlikely]] {
            outcome o{};
            if (injected(w, o))
                return ask_for_answers(), o;
        } else if (ep_.local != nullptr && !ep_.path_lost) {
            // What the peer is executing must not be overtaken.
            if (next_ > 0 && !follows_to_peer(w))
                return outcome::proceed;
            outcome o{};
            if (next_ == 0 && executed_locally(w, o)) {
                if (o != outcome::proceed)
                    return o;
                continue;
            }
        }
        if (ep_.path->congested())
            return outcome::proceed;
        const bool fenced = (w.flags & IBV_SEND_FENCE) != 0 && round_trips_ > 0;
        const bool too_many_round_trips = w.is_round_trip() && round_trips_ >= std::max<int>(ep_.attr.max_rd_atomic, 1);
        if (fenced || too_many_round_trips)
            return outcome::proceed;
        if (const outcome o = transmit(w); o != outcome::proceed || w.local_status != IBV_WC_SUCCESS)
            return o;
    }
    return outcome::proceed;
}

// Whether the answer to what follows will be that to a WRITE as well, and nobody waits for it.
bool requester::may_wait(const work &w) const noexcept
{
    const bool is_plain_write = !kind_of(w.opcode).takes_receive && !w.is_round_trip();
    return is_plain_write && !is_signaled(w.flags) && more_follow() && ep_.local == nullptr && !fault::active();
}

// What was to follow does not.
void requester::ask_for_answers()
{
    if (next_ > 0 && std::exchange(queue_[next_ - 1].unhurried, false))
        ep_.transmit({.op = opcode::answer_wanted, .psn = queue_[next_ - 1].psn});
}

outcome requester::local_error(work &w, ibv_wc_status status)
{
    // The error is reported in its turn: after everything posted before has completed.
    w.local_status = status;
    ask_for_answers();
    return &w == &queue_.front() ? (complete_first(status), outcome::broken) : outcome::proceed;
}

// From now on the peer has some time to answer.
[[gnu::cold]] void requester::watch_answers()
{
    const auto limit = ep_.answer_limit();
    if (limit == limit.zero())
        return;
    progress_at_ = std::chrono::steady_clock::now();
    if (!std::exchange(watches_answers_, true))
        ep_.path->start_answer_timer(limit);
}

outcome requester::answer_timer_expired()
{
    const auto limit = ep_.answer_limit();
    watches_answers_ = false;
    if (queue_.empty() || !queue_.front().numbered || limit == limit.zero() || ep_.path == nullptr)
        return outcome::proceed; // nothing is owed; what is sent next starts the timer again
    const auto silent = std::chrono::steady_clock::now() - progress_at_;
    if (silent >= limit && !waiting_for_receiver_) {
        log::write(log::level::warn, "queue pair %u: the peer has not answered for %lld ms: it is given up",
                ep_.qp->qp_num, static_cast<long long>(std::chrono::floor<std::chrono::milliseconds>(silent).count()));
        complete_first(IBV_WC_RETRY_EXC_ERR);
        return outcome::broken;
    }
    watches_answers_ = true;
    const auto left = waiting_for_receiver_ ? limit : limit - silent;
    ep_.path->start_answer_timer(std::chrono::ceil<std::chrono::microseconds>(left));
    return outcome::proceed;
}

outcome requester::transmit(work &w)
{
    if (w.local_status != IBV_WC_SUCCESS)
        return local_error(w, w.local_status);
    if (ep_.limits_answers) [[unlikely]]
        watch_answers();
    if (!w.numbered) {
        w.psn = next_psn_;
        w.numbered = true;
        next_psn_ = (next_psn_ + 1) & psn_mask;
    }
    if (w.answer_lost)
        lose_answers_from(w.psn);
    if (w.is_round_trip())
        return transmit_round_trip(w);
    // The cut of the first segment aligns the following ones to 8-byte words at the target.
    std::uint32_t bytes = ep_.next_segment(w.length - w.sent);
    if (bytes < w.length - w.sent)
        bytes -= static_cast<std::uint32_t>((w.remote_addr + w.sent + bytes) % 8);
    return transmit_segment(w, bytes);
}

packet requester::round_trip_header(const work &w) const noexcept
{
    packet header{.psn = w.psn, .remote_addr = w.remote_addr, .rkey = w.rkey, .dma_length = w.length};
    switch (static_cast<int>(w.opcode)) {
    case IBV_WR_RDMA_READ:
        header.op = opcode::read_request;
        break;
    case IBV_WR_ATOMIC_CMP_AND_SWP:
        header.op = opcode::compare_swap;
        header.compare = w.compare_add;
        header.swap_add = w.swap;
        break;
    case IBV_WR_ATOMIC_FETCH_AND_ADD:
        header.op = opcode::fetch_add;
        header.swap_add = w.compare_add;
        break;
    case native::wr_atomic_write:
        header.op = opcode::atomic_write;
        break;
    default: {
        const auto flush = native::flush_of(w.compare_add, w.swap);
        header.op = opcode::flush;
        header.dma_length = flush.length;
        header.placement = flush.placement;
        header.level = flush.level;
    }
    }
    return header;
}

outcome requester::transmit_round_trip(work &w)
{
    const iovec inlined{w.inlined.data(), word_size};
    gathered local;
    const bool sends = w.opcode == native::wr_atomic_write;
    const int access = sends ? 0 : IBV_ACCESS_LOCAL_WRITE;
    if (!local.collect(ep_.qp->pd, w.scatter(), access, 0, w.sge_count > 0 ? w.length : 0))
        return local_error(w, IBV_WC_LOC_PROT_ERR);
    std::span<const iovec> payload;
    if (sends)
        payload = w.sge_count > 0 ? local.span() : std::span(&inlined, 1);
    ep_.transmit(round_trip_header(w), payload, more_follow());
    ++round_trips_;
    ++next_;
    return outcome::proceed;
}

opcode requester::segment_opcode(const work &w, std::uint32_t bytes) const noexcept
{
    const bool write = !kind_of(w.opcode).message;
    const bool imm = kind_of(w.opcode).immediate;
    const bool first = w.sent == 0;
    const bool last = w.sent + bytes == w.length;
    if (first && last)
        return write ? (imm ? opcode::write_only_imm : opcode::write_only)
                     : (imm ? opcode::send_only_imm : opcode::send_only);
    if (last)
        return write ? (imm ? opcode::write_last_imm : opcode::write_last)
                     : (imm ? opcode::send_last_imm : opcode::send_last);
    if (first)
        return write ? opcode::write_first : opcode::send_first;
    return write ? opcode::write_middle : opcode::send_middle;
}

outcome requester::transmit_segment(work &w, std::uint32_t bytes)
{
    const opcode op = segment_opcode(w, bytes);
    w.unhurried = may_wait(w);
    const packet header{.op = op,
            .solicited = (w.flags & IBV_SEND_SOLICITED) != 0 && is_last(op),
            .unhurried = w.unhurried,
            .psn = w.psn,
            .remote_addr = w.remote_addr,
            .rkey = w.rkey,
            .dma_length = w.length,
            .imm_data = w.imm_data};
    if ((w.flags & IBV_SEND_INLINE) != 0) {
        const iovec payload{w.inlined.data(), bytes};
        ep_.transmit(header, {&payload, 1}, more_follow());
    } else {
        gathered source;
        if (!source.collect(ep_.qp->pd, w.scatter(), 0, w.sent, bytes))
            return local_error(w, IBV_WC_LOC_PROT_ERR);
        ep_.transmit(header, source.span(), more_follow());
    }
    w.sent += bytes;
    if (is_last(op))
        ++next_;
    return outcome::proceed;
}

void requester::complete(
        std::uint64_t wr_id, ibv_wr_opcode opcode, std::uint32_t length, unsigned flags, ibv_wc_status status)
{
    ++completed_;
    ++unreported_;
    if (status == IBV_WC_SUCCESS && !is_signaled(flags))
        return;
    const std::uint32_t places = std::exchange(unreported_, 0);
    if (!cq_of(ep_.qp->send_cq)
                    .push_sent(ep_.qp->qp_num, wr_id, kind_of(opcode).completion, length, status, freed_, places))
        completed_ -= places;
}

void requester::complete_first(ibv_wc_status status)
{
    const work &w = queue_.front();
    complete(w.wr_id, w.opcode, w.length, w.flags, status);
    if (ep_.local != nullptr && w.numbered && status == IBV_WC_SUCCESS && kind_of(w.opcode).takes_receive)
        ep_.local->peer_consumed_receive();
    queue_.pop_front();
    if (queue_.empty())
        stop_awaiting_owner();
    next_ -= next_ > 0 ? 1 : 0;
    rnr_tries_ = 0;
    stalled_ = asking_ = false;
}

outcome requester::resume()
{
    if (!waiting_for_receiver_)
        return outcome::proceed;
    waiting_for_receiver_ = false;
    return pump();
}

outcome requester::timed_out()
{
    if (injection_ != nullptr) {
        if (const outcome o = release_injected(); o != outcome::proceed)
            return o;
    }
    if (peer_silent_ && fail_first(IBV_WC_RETRY_EXC_ERR))
        return outcome::broken;
    return ep_.local != nullptr ? local_timer_expired() : resume();
}

bool requester::fail_first(ibv_wc_status status)
{
    if (queue_.empty())
        return false;
    complete_first(status);
    return true;
}

void requester::flush()
{
    while (!queue_.empty())
        complete_first(IBV_WC_WR_FLUSH_ERR);
    waiting_for_receiver_ = peer_silent_ = watches_answers_ = stalled_ = asking_ = false;
    timer_at_ = never;
    injection_.reset();
}

void requester::reset()
{
    queue_.clear();
    completed_ -= std::exchange(unreported_, 0);
    stop_awaiting_owner();
    next_ = 0;
    round_trips_ = 0;
    rnr_tries_ = 0;
    waiting_for_receiver_ = peer_silent_ = watches_answers_ = stalled_ = asking_ = false;
    timer_at_ = never;
    injection_.reset();
}

} // namespace softrdma
