// SPDX-License-Identifier: BSD-3-Clause
#include "transport/roce/replier.hpp"

#include <algorithm>

namespace softrdma::roce
{

std::optional<packet> replier::arrived(const packet &p)
{
    if (failed_)
        return std::nullopt;
    if (psn_after(expected_, p.psn))
        return repeated(p);
    if (is_invalid_)
        return std::nullopt;
    if (p.psn == expected_)
        return accept(p);
    owes_nak_ = owes_nak_ || !drops_until_expected_;
    return std::nullopt;
}

bool replier::is_valid(const packet &p) const noexcept
{
    const bool opens = is_first(p.op) || is_round_trip(p.op);
    if (opens == in_message_ || (!opens && is_write(p.op) != message_is_write_))
        return false;
    if (!is_divisible(p.op))
        return p.payload.empty() || p.op == opcode::atomic_write;
    return is_last(p.op) ? p.payload.size() <= attr_.mtu && (opens || !p.payload.empty())
                         : p.payload.size() == attr_.mtu;
}

std::optional<packet> replier::accept(const packet &p)
{
    drops_until_expected_ = owes_nak_ = false;
    packet up = p;
    up.psn = message_;
    up.no_ack_req = false;
    if (!is_valid(p)) {
        is_invalid_ = up.is_invalid = true;
        return up;
    }
    const bool is_whole = is_round_trip(p.op);
    if (is_first(p.op) || is_whole)
        first_psn_ = p.psn;
    message_is_write_ = is_write(p.op);
    if ((is_first(p.op) && is_send(p.op)) || (is_write(p.op) && has_imm(p.op)))
        receive_psn_ = p.psn;
    expected_ = psn_add(expected_, p.op == opcode::read_request ? packets_of(p.dma_length, attr_.mtu) : 1);
    in_message_ = !is_whole && !is_last(p.op);
    if (in_message_) {
        owes_ack_ = owes_ack_ || !p.no_ack_req;
        return up;
    }
    msn_ = psn_add(msn_, 1);
    outstanding_.push_back({p.op, message_, first_psn_, psn_add(expected_, psn_mask), receive_psn_, msn_});
    message_ = psn_add(message_, 1);
    return up;
}

std::optional<packet> replier::repeated(const packet &p)
{
    const auto contains_psn = [&](const message &m) { return !psn_after(m.first, p.psn) && !psn_after(p.psn, m.last); };
    if (!is_round_trip(p.op)) {
        owes_ack_ = owes_ack_ || !p.no_ack_req;
    } else if (std::any_of(outstanding_.begin(), outstanding_.end(), contains_psn)) {
        return std::nullopt; // its responses are still being sent
    } else if (p.op == opcode::read_request) {
        if (packets_of(p.dma_length, attr_.mtu) > ((expected_ - p.psn) & psn_mask))
            return std::nullopt; // longer than the request that it repeats
        packet up = p;
        up.replay = true;
        return up;
    } else {
        const auto found = std::find_if(
                kept_.rbegin(), kept_.rend(), [&](const packet &response) { return response.psn == p.psn; });
        if (found != kept_.rend())
            out_.send(*found, {});
    }
    return std::nullopt;
}

void replier::acknowledge(std::uint32_t psn, std::uint8_t code)
{
    packet p{.op = opcode::acknowledge, .dest_qpn = attr_.dest_qpn, .psn = psn, .syndrome = code};
    p.msn = completed_msn_;
    out_.send(p, {});
}

// An acknowledgment or a NAK acknowledges all packets before its own, so it waits for the responses to them. After a
// rejection the replier sends none: it would acknowledge the rejected packet.
void replier::received_all()
{
    if (failed_)
        return;
    if (owes_ack_) {
        owes_ack_ = false;
        if (outstanding_.empty())
            acknowledged_ = psn_add(expected_, psn_mask);
        acknowledge(acknowledged_, syndrome::ack);
    }
    if (owes_nak_ && outstanding_.empty()) {
        owes_nak_ = false;
        drops_until_expected_ = true;
        acknowledge(expected_, syndrome::sequence_error);
    }
}

// Removes the messages that a response to this one acknowledges, itself included.
void replier::remove_until(std::uint32_t number)
{
    while (!outstanding_.empty() && !psn_after(outstanding_.front().number, number)) {
        acknowledged_ = outstanding_.front().last;
        completed_msn_ = outstanding_.front().msn;
        outstanding_.pop_front();
    }
}

void replier::reply(const packet &header, std::span<const iovec> payload)
{
    if (header.op != opcode::acknowledge)
        return header.op == opcode::receive_posted ? void() : respond(header, payload);
    if (header.syndrome == syndrome::unresponsive)
        return; // an RNIC sends nothing: the peer reaches its retry limit
    if (header.syndrome == syndrome::ack) {
        const std::uint32_t before = acknowledged_;
        remove_until(header.psn);
        if (before != acknowledged_)
            acknowledge(acknowledged_, syndrome::ack);
    } else if ((header.syndrome & 0xe0) == syndrome::rnr) {
        receiver_not_ready(header);
    } else {
        reject(header);
    }
}

// Expects the packet again that had no receive, and drops those after it.
void replier::receiver_not_ready(const packet &header)
{
    remove_until(psn_add(header.psn, psn_mask));
    if (!outstanding_.empty()) { // it has arrived to its end
        const message &m = outstanding_.front();
        first_psn_ = m.first;
        receive_psn_ = m.receive;
        in_message_ = m.receive != m.first;
        message_is_write_ = is_write(m.op);
        message_ = m.number;
        msn_ = psn_add(m.msn, psn_mask);
        outstanding_.clear();
    } else {
        in_message_ = receive_psn_ != first_psn_;
    }
    expected_ = receive_psn_;
    owes_ack_ = owes_nak_ = false;
    drops_until_expected_ = true;
    acknowledge(expected_, header.syndrome);
}

void replier::reject(const packet &header)
{
    failed_ = true;
    remove_until(psn_add(header.psn, psn_mask));
    std::uint32_t psn = is_invalid_ ? expected_ : psn_add(expected_, psn_mask);
    if (!outstanding_.empty())
        psn = outstanding_.front().op == opcode::read_request ? outstanding_.front().first : outstanding_.front().last;
    acknowledge(psn, header.syndrome);
}

void replier::respond(const packet &header, std::span<const iovec> payload)
{
    if (header.op == opcode::atomic_acknowledge || header.op == opcode::read_response_only ||
            header.op == opcode::read_response_first) {
        if (!header.replay) {
            remove_until(psn_add(header.psn, psn_mask));
            if (outstanding_.empty())
                return;
            response_psn_ = outstanding_.front().first;
        } else {
            replay_psn_ = header.psn;
        }
        (header.replay ? replay_cutter_ : cutter_).start();
    }
    const bool is_word = header.op == opcode::atomic_acknowledge;
    const bool ends = is_word || header.op == opcode::read_response_only || header.op == opcode::read_response_last;
    std::uint32_t &psn = header.replay ? replay_psn_ : response_psn_;
    const bool is_complete =
            (header.replay ? replay_cutter_ : cutter_)
                    .add(payload, ends, attr_.mtu, [&](std::span<const std::byte> bytes, bool first, bool last) {
                        packet p = header;
                        if (!is_word)
                            p.op = part_of(opcode::read_response_only, first, last);
                        send_response(p, bytes, psn);
                    });
    failed_ = failed_ || !is_complete;
    if (!ends || header.replay)
        return;
    if (outstanding_.front().op != opcode::read_request) {
        packet p = header;
        p.dest_qpn = attr_.dest_qpn;
        p.psn = outstanding_.front().first;
        p.msn = outstanding_.front().msn;
        kept_.push_back(p);
        if (kept_.size() > attr_.max_dest_rd_atomic)
            kept_.pop_front();
    }
    remove_until(header.psn);
}

void replier::send_response(packet p, std::span<const std::byte> payload, std::uint32_t &psn)
{
    p.dest_qpn = attr_.dest_qpn;
    p.psn = psn;
    p.msn = p.replay ? completed_msn_ : outstanding_.front().msn;
    psn = psn_add(psn, 1);
    out_.send(p, payload);
}

} // namespace softrdma::roce
