// SPDX-License-Identifier: BSD-3-Clause
#include "base/assert.hpp"
#include "base/log.hpp"
#include "base/copy.hpp"
#include "base/guard.hpp"
#include "transport/rc/responder.hpp"

#include <utility>

namespace softrdma
{

void responder::acknowledge(std::uint32_t psn)
{
    SOFTRDMA_ASSERT(psn <= psn_mask);
    owes_acknowledgement_ = false;
    if (!replies_.empty() && replies_.back().is_success())
        replies_.back().psn = psn;
    else
        replies_.push_back({.psn = psn, .syndrome = syndrome::ack});
}

void responder::respond_round_trip(const packet &p)
{
    owes_acknowledgement_ = owes_acknowledgement_ && p.replay;
    reply r{.psn = p.psn, .syndrome = syndrome::ack, .replay = p.replay};
    if (p.op == opcode::read_request) {
        r.kind = reply_kind::read;
        r.addr = p.remote_addr;
        r.rkey = p.rkey;
        r.length = p.dma_length;
    } else if (is_atomic(p.op)) {
        r.kind = reply_kind::atomic;
        r.original = original_;
    } else {
        r.kind = reply_kind::empty_read;
    }
    if (!p.replay && !replies_.empty() &&
            replies_.back().is_success()) // this response also acknowledges the previous one
        replies_.back() = r;
    else
        replies_.insert(replies_.end() - (rejects_ ? 1 : 0), r); // a repeated READ precedes the rejected request
}

outcome responder::reject(const packet &p, std::uint8_t code)
{
    log::write(log::level::info, "queue pair %u: request of the peer rejected: opcode %#x, syndrome %#x, key %#x",
            ep_.qp->qp_num, static_cast<unsigned>(p.op), unsigned{code}, p.rkey);
    rejects_ = true;
    owes_acknowledgement_ = false; // the rejection acknowledges all before
    replies_.push_back({.psn = p.psn, .syndrome = code});
    return release();
}

// Rejects a READ of memory that is no longer readable, or drops a repeated one. Returns true: no response follows.
bool responder::reject_read(reply &r, std::uint8_t code)
{
    if (r.replay) {
        --round_trips_queued_;
        return true;
    }
    rejects_ = true;
    replies_.resize(1);
    r = {.psn = r.psn, .syndrome = code};
    return send_reply(r);
}

void responder::report(std::uint8_t code)
{
    object_of(ep_.qp).raise_event(code == syndrome::remote_access     ? IBV_EVENT_QP_ACCESS_ERR
                                  : code == syndrome::invalid_request ? IBV_EVENT_QP_REQ_ERR
                                                                      : IBV_EVENT_QP_FATAL);
}

void responder::announce_to_waiting()
{
    const bool requested = receives_.shared().receive_requested.exchange(0) != 0;
    announces_ = announces_ || receiver_not_ready_ || requested;
    send_receive_posted();
}

// Queued responses, which may contain an RNR NAK, are sent first.
void responder::send_receive_posted()
{
    if (replies_.empty() && std::exchange(announces_, false))
        ep_.transmit({.op = opcode::receive_posted});
}

bool responder::send_reply(reply &r)
{
    const bool more = replies_.size() > 1;
    switch (r.kind) {
    case reply_kind::acknowledgement:
        ep_.transmit({.op = opcode::acknowledge, .psn = r.psn, .syndrome = r.syndrome}, {}, more);
        if (r.is_rejection())
            report(r.syndrome);
        return true;
    case reply_kind::read:
        return send_read(r);
    case reply_kind::empty_read:
        ep_.transmit({.op = opcode::read_response_only, .psn = r.psn, .syndrome = syndrome::ack}, {}, more);
        break;
    case reply_kind::atomic:
        ep_.transmit(
                {.op = opcode::atomic_acknowledge, .psn = r.psn, .syndrome = syndrome::ack, .swap_add = r.original}, {},
                more);
        break;
    }
    SOFTRDMA_ASSERT(round_trips_queued_ > 0);
    --round_trips_queued_;
    return true;
}

bool responder::send_read(reply &r)
{
    // Few words are copied, which reads them whole. The kernel reads larger payloads once instead of twice.
    std::array<std::byte, 4096> copied;
    do {
        if (ep_.path == nullptr || ep_.path->responses_congested())
            return false;
        const std::uint32_t bytes = ep_.next_segment(r.length - r.sent);
        region_pin pin;
        iovec payload{copied.data(), bytes};
        if (bytes > 0) {
            pin = memory_.find(r.rkey, IBV_ACCESS_REMOTE_READ, r.addr, r.length);
            if (!pin)
                return reject_read(r, syndrome::remote_access);
            std::byte *from = pin->at(r.addr + r.sent);
            const bool copies = bytes <= copied.size();
            const bool is_there = copies ? guarded([&] { copy_out(copied.data(), from, bytes); })
                                         : !pin->may_fault() || is_readable(from, bytes);
            if (!is_there)
                return reject_read(r, syndrome::remote_operational);
            if (!copies)
                payload.iov_base = from;
        }
        const bool first = r.sent == 0;
        r.sent += bytes;
        SOFTRDMA_ASSERT(r.sent <= r.length);
        const opcode op = part_of(opcode::read_response_only, first, r.sent == r.length);
        const unordered_reads from_region;
        ep_.transmit({.op = op, .psn = r.psn, .syndrome = syndrome::ack, .replay = r.replay}, {&payload, 1},
                replies_.size() > 1);
    } while (r.sent < r.length);
    SOFTRDMA_ASSERT(round_trips_queued_ > 0);
    --round_trips_queued_;
    return true;
}

void responder::send_replies()
{
    // A peer that has the acknowledgment of a message may deliver the next one through memory.
    if (!completions_.empty())
        receives_.hold_delivered();
    while (!replies_.empty() && send_reply(replies_.front()))
        replies_.pop_front();
    send_receive_posted();
    ep_.push();
}

void responder::push_completions()
{
    if (completions_.empty())
        return;
    for (const completion &c : completions_)
        cq_of(ep_.qp->recv_cq).push(c.wc, c.solicited);
    completions_.clear();
    receives_.release_delivered();
}

outcome responder::release()
{
    send_replies();
    if (rejects_ && !replies_.empty())
        return outcome::proceed;
    push_completions();
    return rejects_ ? outcome::broken : outcome::proceed;
}

void responder::abandon()
{
    if (owes_acknowledgement_)
        acknowledge_executed();
    send_replies();
    std::erase_if(replies_, [](const reply &r) { return r.replay; });
    if (!replies_.empty()) {
        rejects_ = true;
        const std::uint32_t psn = replies_.front().psn; // its response would have acknowledged all before
        ep_.transmit({.op = opcode::acknowledge, .psn = (psn - 1) & psn_mask, .syndrome = syndrome::ack});
        ep_.transmit({.op = opcode::acknowledge, .psn = psn, .syndrome = syndrome::unresponsive});
        replies_.clear();
    }
    push_completions();
}

} // namespace softrdma
