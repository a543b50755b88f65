// SPDX-License-Identifier: BSD-3-Clause
#include "transport/roce/sender.hpp"

#include <algorithm>
#include <utility>

namespace softrdma::roce
{

void sender::post(const packet &header, std::span<const iovec> payload, time_point now)
{
    if (!is_request(header.op))
        return; // a hint that RoCE has no packet for
    const bool begins = is_round_trip(header.op) || is_first(header.op);
    if (restart_ && !(begins && header.psn == *restart_))
        return;
    restart_.reset();
    if (begins) {
        message_psn_ = next_psn_;
        first_header_ = header;
        cutter_.start();
    }
    bool is_complete = true;
    if (header.op == opcode::read_request) {
        add_read(header);
    } else if (is_round_trip(header.op)) {
        is_complete = cutter_.add(payload, true, attr_.mtu,
                [&](std::span<const std::byte> bytes, bool, bool) { add(header, bytes, 1, true, true); });
    } else {
        is_complete = cutter_.add(
                payload, is_last(header.op), attr_.mtu, [&](std::span<const std::byte> bytes, bool first, bool last) {
                    packet p = first ? first_header_ : header;
                    p.op = part_of(header.op, first, last);
                    if (last) {
                        p.imm_data = header.imm_data;
                        p.solicited = header.solicited;
                        if (has_ieth(p.op))
                            p.rkey = header.rkey;
                    } else {
                        p.solicited = false;
                    }
                    add(p, bytes, 1, first, last);
                });
    }
    failed_ = failed_ || !is_complete;
    pump(now);
}

void sender::add(const packet &header, std::span<const std::byte> payload, std::uint32_t count, bool begins, bool ends)
{
    request r{header, {payload.begin(), payload.end()}, count, header.psn, message_psn_, begins, ends};
    r.header.psn = next_psn_;
    r.header.dest_qpn = attr_.dest_qpn;
    next_psn_ = psn_add(next_psn_, count);
    requests_.push_back(std::move(r));
}

void sender::add_read(packet header)
{
    const std::uint32_t max_length = read_packets * attr_.mtu;
    std::uint32_t left = header.dma_length;
    for (bool first = true; first || left > 0; first = false) {
        header.dma_length = std::min(left, max_length);
        left -= header.dma_length;
        add(header, {}, packets_of(header.dma_length, attr_.mtu), first, left == 0);
        header.remote_addr += header.dma_length;
    }
}

void sender::pump(time_point now)
{
    while (sent_ < requests_.size() && !failed_) {
        const request &r = requests_[sent_];
        const bool round_trip = is_round_trip(r.header.op);
        if (sent_ > 0 && (in_flight_ >= window_ || (round_trip && round_trips_ >= attr_.max_rd_atomic)))
            break;
        packet p = r.header;
        p.no_ack_req = !round_trip && sent_ + 1 < requests_.size() && in_flight_ + 1 < window_ &&
                       r.header.psn % ack_interval != 0;
        out_.send(p, r.payload);
        in_flight_ += r.count;
        round_trips_ += round_trip ? 1u : 0u;
        ++sent_;
        const std::uint32_t end = psn_add(r.header.psn, r.count);
        if (psn_after(end, end_psn_))
            end_psn_ = end;
        if (!deadline_)
            start_timer(now);
    }
}

void sender::go_back(time_point now)
{
    sent_ = 0;
    in_flight_ = round_trips_ = 0;
    window_ = std::max(window_ / 2, 1u);
    acknowledged_ = 0;
    deadline_.reset();
    pump(now);
}

void sender::retry(time_point now)
{
    if (++tries_ > attr_.retry_cnt) {
        failed_ = true;
        deadline_.reset();
        return;
    }
    go_back(now);
}

void sender::expired(time_point now)
{
    if (!deadline_ || now < *deadline_)
        return;
    recovering_ = false;
    retry(now);
}

// Later responses than the missing one may be on their way: each would start the requests again.
void sender::go_back_once(time_point now)
{
    if (!std::exchange(recovering_, true))
        go_back(now);
}

void sender::progressed(time_point now)
{
    tries_ = 0;
    recovering_ = false;
    if (++acknowledged_ >= window_) {
        acknowledged_ = 0;
        window_ = std::min(window_ + 1, max_window);
    }
    deadline_.reset();
    if (!requests_.empty())
        start_timer(now);
}

// The specification permits four times the timeout. A software device uses it: a busy processor delays responses.
void sender::start_timer(time_point now)
{
    constexpr unsigned max_doublings = 2;
    if (attr_.timeout.count() > 0)
        deadline_ = now + attr_.timeout * (1u << std::min(tries_, max_doublings));
}

void sender::remove_first() noexcept
{
    const request &r = requests_.front();
    if (sent_ > 0) {
        --sent_;
        in_flight_ -= r.count;
        round_trips_ -= is_round_trip(r.header.op) ? 1u : 0u;
    }
    requests_.pop_front();
}

bool sender::remove_before(std::uint32_t psn, std::optional<packet> &up, time_point now)
{
    while (!requests_.empty() && psn_after(psn, requests_.front().header.psn)) {
        const request &r = requests_.front();
        if (is_round_trip(r.header.op))
            return false;
        if (r.ends)
            up = packet{.op = opcode::acknowledge, .psn = r.message, .syndrome = syndrome::ack};
        remove_first();
        progressed(now);
    }
    return true;
}

namespace
{

constexpr bool is_defined(std::uint8_t code) noexcept // other syndromes are reserved
{
    return code < syndrome::rnr + 0x20 || (code >= syndrome::sequence_error && code <= syndrome::remote_operational);
}

} // namespace

std::optional<packet> sender::arrived(const packet &p, time_point now)
{
    if (requests_.empty() || failed_ || (p.op == opcode::acknowledge && !is_defined(p.syndrome)))
        return std::nullopt;
    const std::uint32_t first = requests_.front().header.psn;
    const bool is_outstanding = !psn_after(first, p.psn) && psn_after(end_psn_, p.psn);
    if (!is_outstanding)
        return std::nullopt;
    if (p.op != opcode::acknowledge)
        return responded(p, now);
    std::optional<packet> up;
    const bool is_ack = p.syndrome < syndrome::rnr;
    if (!remove_before(is_ack ? psn_add(p.psn, 1) : p.psn, up, now)) {
        go_back_once(now); // the response before this one was lost
        return up;
    }
    if (is_ack)
        pump(now);
    else if (p.syndrome == syndrome::sequence_error)
        retry(now);
    else if (!requests_.empty())
        return rejected(p);
    return up;
}

// The receiver was not ready, or the request has failed: the requester above repeats it with all later ones, or ends.
packet sender::rejected(const packet &p)
{
    const std::uint32_t message = requests_.front().message;
    restart_ = message;
    next_psn_ = requests_.front().message_psn; // end_psn_ remains: the peer may acknowledge what it has received
    requests_.clear();
    sent_ = 0;
    in_flight_ = round_trips_ = 0;
    tries_ = 0;
    recovering_ = false;
    deadline_.reset();
    cutter_.start();
    return packet{.op = opcode::acknowledge, .psn = message, .syndrome = p.syndrome};
}

std::optional<packet> sender::responded(const packet &p, time_point now)
{
    std::optional<packet> up;
    if (!remove_before(p.psn, up, now) || requests_.empty() || requests_.front().header.psn != p.psn) {
        go_back_once(now);
        return up;
    }
    request &r = requests_.front();
    const bool is_read = r.header.op == opcode::read_request;
    const bool is_word = is_atomic(r.header.op);
    if (!is_round_trip(r.header.op) || is_word != (p.op == opcode::atomic_acknowledge))
        return up;
    const auto bytes = static_cast<std::uint32_t>(p.payload.size());
    if (bytes != (is_read ? std::min(r.header.dma_length, attr_.mtu) : 0))
        return up;
    packet response = p; // also acknowledges what was removed
    response.psn = r.message;
    if (!is_word)
        response.op = part_of(opcode::read_response_only, r.begins, r.ends && r.count == 1);
    if (r.count == 1) {
        remove_first();
    } else {
        r.begins = false;
        r.header.psn = psn_add(r.header.psn, 1);
        r.header.remote_addr += bytes;
        r.header.dma_length -= bytes;
        --r.count;
        in_flight_ -= sent_ > 0 ? 1u : 0u;
    }
    progressed(now);
    pump(now);
    return response;
}

} // namespace softrdma::roce
