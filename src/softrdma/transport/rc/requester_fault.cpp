// SPDX-License-Identifier: BSD-3-Clause
// Injected faults, and nothing else: none of this runs without a rule.
#include "transport/rc/requester.hpp"
#include "wire/rnr_timer.hpp"

#include <utility>

namespace softrdma
{

// Delay before a lost response is reported as an error. An RNIC would first retry for seconds.
constexpr std::chrono::milliseconds lost_response_delay{100};
constexpr std::uint8_t injected_rnr_timer = 12;

// Returns true if the request must not be started now.
bool requester::injected(wqe &w, outcome &o)
{
    o = outcome::proceed;
    if (w.state != wqe_state::posted)
        return false;
    if (injection_ == nullptr)
        injection_ = std::make_unique<injection>();
    const auto verdict = fault::on_request(w.op, ep_.qp->qp_num);
    if (verdict && verdict->kind == fault::action::rnr) {
        o = reject_once(w);
        return true;
    }
    if (verdict && verdict->kind == fault::action::status) {
        w.reject(verdict->status);
        return false;
    }
    w.enter(wqe_state::network_only);
    if (!verdict)
        return false;
    switch (verdict->kind) {
    case fault::action::drop:
        w.late_us = wqe::response_lost;
        return false;
    case fault::action::late:
        w.late_us = static_cast<std::uint32_t>(verdict->delay.count());
        return false;
    case fault::action::delay:
        delay_sending(verdict->delay);
        return true;
    case fault::action::duplicate: // a reliable connection drops duplicates
        return false;
    default:
        ep_.path->cut();
        return true;
    }
}

outcome requester::reject_once(wqe &w)
{
    if (ep_.attr.rnr_retry != infinite_retry && rnr_tries_ >= ep_.attr.rnr_retry)
        return local_error(w, IBV_WC_RNR_RETRY_EXC_ERR);
    ++rnr_tries_;
    delay_sending(std::chrono::microseconds(rnr_delay_us[injected_rnr_timer]));
    return outcome::proceed;
}

void requester::drop_responses_from(std::uint32_t psn)
{
    if (injection_->lost_from)
        return;
    injection_->lost_from = psn;
    peer_silent_ = true;
    ep_.path->start_timer(lost_response_delay);
}

bool requester::intercepted(const packet &p) // whether the packet was dropped or delayed
{
    injection &i = *injection_;
    if (i.lost_from && !psn_after(*i.lost_from, p.psn)) {
        if (p.syndrome != syndrome::unresponsive) // this response acknowledges nothing
            complete_before(*i.lost_from);
        return true;
    }
    if (i.releasing)
        return false;
    if (i.late.empty()) {
        std::uint32_t late_us = 0;
        for (std::uint32_t n = 0; n < queue_.size() && is_read_response(p.op); ++n) {
            if (queue_[n].has_psn() && queue_[n].psn == p.psn)
                late_us = queue_[n].late_us;
        }
        if (late_us == 0)
            return false;
        ep_.path->start_timer(std::chrono::microseconds(late_us));
    }
    i.late.push_back({p, {p.payload.begin(), p.payload.end()}});
    return true;
}

// Called when the timer has expired: resumes requests and responses that were held back.
outcome requester::release_injected()
{
    injection &i = *injection_;
    i.releasing = true;
    outcome o = outcome::proceed;
    while (!i.late.empty() && o == outcome::proceed) {
        deferred_packet kept = std::move(i.late.front());
        i.late.pop_front();
        kept.header.payload = kept.payload;
        o = receive_response(kept.header);
    }
    i.releasing = false;
    if (o != outcome::proceed || !std::exchange(i.held_back, false))
        return o;
    return pump();
}

} // namespace softrdma
