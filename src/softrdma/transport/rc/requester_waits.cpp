// SPDX-License-Identifier: BSD-3-Clause
#include "base/assert.hpp"
#include "base/log.hpp"
#include "transport/rc/requester.hpp"
#include "wire/rnr_timer.hpp"

#include <algorithm>
#include <utility>

namespace softrdma
{

// Delay before the receiver must notify of a posted receive, which costs a sleeping sender more than a message.
constexpr std::chrono::microseconds receive_request_delay{200};
// Delay for programs that allow no retry: they depend on the latency of a network to post their receives in time.
constexpr std::chrono::microseconds flight_time{50000};

[[gnu::cold]] void requester::watch_responses()
{
    const auto limit = ep_.response_limit();
    SOFTRDMA_ASSERT(ep_.path != nullptr); // the timer belongs to the path
    if (limit == limit.zero())
        return;
    progress_at_ = std::chrono::steady_clock::now();
    if (!std::exchange(watches_responses_, true))
        ep_.path->start_response_timer(limit);
}

outcome requester::response_timer_expired()
{
    const auto limit = ep_.response_limit();
    watches_responses_ = false;
    if (queue_.empty() || !queue_.front().has_psn() || limit == limit.zero() || ep_.path == nullptr)
        return outcome::proceed; // no response is outstanding; the next request restarts the timer
    const auto silent = std::chrono::steady_clock::now() - progress_at_;
    if (silent >= limit && !waiting_for_receiver_) {
        log::write(log::level::warn, "queue pair %u: no response for %lld ms: retry limit exceeded", ep_.qp->qp_num,
                static_cast<long long>(std::chrono::floor<std::chrono::milliseconds>(silent).count()));
        complete_first(IBV_WC_RETRY_EXC_ERR);
        return outcome::broken;
    }
    watches_responses_ = true;
    const auto left = waiting_for_receiver_ ? limit : limit - silent;
    ep_.path->start_response_timer(std::chrono::ceil<std::chrono::microseconds>(left));
    return outcome::proceed;
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

void requester::stop_waiting() noexcept
{
    waiting_for_receiver_ = peer_silent_ = peer_ended_ = watches_responses_ = receive_requested_ = false;
    timer_at_ = never;
    injection_.reset();
}

outcome requester::receiver_never_ready()
{
    log::write(log::level::warn,
            "queue pair %u: receiver not ready after %d retries (post receives earlier, or raise rnr_retry)",
            ep_.qp->qp_num, static_cast<int>(ep_.attr.rnr_retry));
    complete_first(IBV_WC_RNR_RETRY_EXC_ERR);
    return outcome::broken;
}

outcome requester::receiver_not_ready(std::uint8_t timer)
{
    if (ep_.attr.rnr_retry != infinite_retry && rnr_tries_ >= ep_.attr.rnr_retry)
        return receiver_never_ready();
    ++rnr_tries_;
    SOFTRDMA_ASSERT(!queue_.empty()); // the rejected message is the first request
    // The receiver drops all requests after the rejected message: they are sent again.
    next_ = 0;
    round_trips_ = 0;
    for (std::uint32_t i = 0; i < queue_.size(); ++i) {
        wqe &w = queue_[i];
        w.sent = w.received = 0;
        if (w.is_sent() || w.state == wqe_state::transmitting)
            w.enter(wqe_state::returned);
    }
    waiting_for_receiver_ = true;
    const std::chrono::microseconds delay(rnr_delay_us[timer]);
    ep_.path->start_timer(delay);
    timer_at_ = std::chrono::steady_clock::now() + delay;
    return outcome::proceed;
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
    // Starts the timer unless the running one, possibly of an earlier message, expires before.
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
