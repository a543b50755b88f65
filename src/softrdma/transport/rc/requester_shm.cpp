// SPDX-License-Identifier: BSD-3-Clause
#include "base/assert.hpp"
#include "transport/rc/requester.hpp"
#include "wire/rnr_timer.hpp"
#include "base/log.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

namespace softrdma
{

namespace
{

// Delay before the receiver is requested to notify of a posted receive. A polling sender retries without a
// notification. The notification of a sleeping sender costs both sides much more than a message through memory.
constexpr std::chrono::microseconds receive_request_delay{200};
// Delay for programs that allow no retry: they depend on the latency of a network to post their receives in time.
constexpr std::chrono::microseconds flight_time{50000};

} // namespace

// Returns true if the request must be sent over the network: memory cannot execute it, or it has been sent before.
bool requester::is_for_network(wqe &w) noexcept
{
    if (w.has_psn() || w.state == wqe_state::network_only)
        return true;
    if (next_ == 0)
        return w.is_rejected();
    if (w.is_rejected() || !ep_.local->is_unsupported(w))
        return false;
    ep_.local->on_network_fallback(w);
    w.enter(wqe_state::network_only);
    return true;
}

outcome requester::tried_in_memory(post_result result)
{
    SOFTRDMA_ASSERT(next_ == 0); // all earlier requests are complete
    awaits_memory_ = false;
    wqe &w = queue_.front();
    switch (result) {
    case post_result::done:
        if (tap *t = tap::current(); t != nullptr) [[unlikely]]
            show_executed(*t, w);
        complete_first(IBV_WC_SUCCESS);
        break;
    case post_result::pending:
        return stall(w);
    case post_result::unsupported:
        ep_.local->on_network_fallback(w);
        start_polling_network();
        w.enter(wqe_state::network_only);
        break;
    case post_result::lost:
        log::write(log::level::warn, "queue pair %u: peer process exited", ep_.qp->qp_num);
        complete_first(IBV_WC_RETRY_EXC_ERR);
        return outcome::broken;
    case post_result::failed:
        complete_first(IBV_WC_REM_OP_ERR);
        return outcome::broken;
    }
    return pump();
}

void requester::show_executed(tap &t, const wqe &w)
{
    gathered data;
    const iovec inlined = w.inline_data();
    std::span<const iovec> payload{&inlined, 1};
    if (!w.is_inline()) {
        data.collect(ep_.qp->pd, w.sg_list(), 0, 0, w.length);
        payload = data.span();
    }
    packet request = w.info().round_trip ? round_trip_header(w)
                                         : packet{.op = segment_opcode(w, w.length),
                                                   .solicited = (w.flags & IBV_SEND_SOLICITED) != 0,
                                                   .remote_addr = w.remote_addr,
                                                   .rkey = w.rkey,
                                                   .dma_length = w.length,
                                                   .imm_data = w.imm_data};
    request.dest_qpn = ep_.attr.dest_qp_num;
    packet answer{.op = opcode::acknowledge, .dest_qpn = ep_.qp->qp_num, .syndrome = syndrome::ack};
    if (w.info().atomic()) {
        answer.op = opcode::atomic_acknowledge;
        memcpy(&answer.swap_add, payload.front().iov_base, std::min<std::size_t>(payload.front().iov_len, word_size));
    } else if (w.info().round_trip) {
        answer.op = opcode::read_response_only;
    }
    const bool sends = !w.info().round_trip || w.op == native::wr_atomic_write;
    const std::span<const iovec> nothing;
    t.executed(*ep_.path, request, sends ? payload : nothing, answer, w.is_read() ? payload : nothing);
}

void requester::start_polling_network() noexcept
{
    if (!std::exchange(polls_network_, true))
        cq_of(ep_.qp->send_cq).network_users.fetch_add(1);
}

void requester::stop_polling_network() noexcept
{
    if (std::exchange(polls_network_, false))
        cq_of(ep_.qp->send_cq).network_users.fetch_sub(1);
}

outcome requester::stall(wqe &w)
{
    SOFTRDMA_ASSERT(next_ == 0 && &w == &queue_.front()); // only the first request waits
    const auto now = std::chrono::steady_clock::now();
    if (w.state != wqe_state::stalled) {
        const bool retries_forever = ep_.attr.rnr_retry == infinite_retry;
        if (!retries_forever && rnr_tries_ > ep_.attr.rnr_retry) {
            return receiver_never_ready();
        }
        ++rnr_tries_;
        w.enter(wqe_state::stalled);
        const bool last = !retries_forever && rnr_tries_ > ep_.attr.rnr_retry;
        retry_at_ = now +
                    (last ? flight_time : std::chrono::microseconds(rnr_delay_us[ep_.local->peer_rnr_timer() & 0x1f]));
    }
    waiting_for_receiver_ = true;
    // Starts the timer unless it expires earlier. The running timer may belong to an earlier message.
    if (const auto due = receive_requested_ ? retry_at_ : std::min(retry_at_, now + receive_request_delay);
            due < timer_at_) {
        ep_.path->start_timer(std::chrono::ceil<std::chrono::microseconds>(due - now));
        timer_at_ = due;
    }
    if (receive_requested_ && ep_.local->request_receive_event()) {
        waiting_for_receiver_ = false;
        return pump();
    }
    cq_of(ep_.qp->send_cq).stalled.add(ep_.self);
    return outcome::proceed;
}

outcome requester::local_timer_expired()
{
    SOFTRDMA_ASSERT(ep_.local != nullptr);
    timer_at_ = never;
    const bool stalled = !queue_.empty() && queue_.front().state == wqe_state::stalled;
    if (!stalled) // the peer itself rejected the message: see receiver_not_ready()
        return resume();
    if (std::chrono::steady_clock::now() >= retry_at_)
        queue_.front().enter(wqe_state::posted); // the next RNR NAK counts as a retry
    else
        receive_requested_ = true;
    return resume();
}

} // namespace softrdma
