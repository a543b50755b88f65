// SPDX-License-Identifier: BSD-3-Clause
#include "cm/mad_exchange.hpp"
#include "base/assert.hpp"
#include "base/gid_table.hpp"

#include <algorithm>
#include <utility>

namespace softrdma
{

using roce::cm_attribute;
using roce::cm_mad;
using roce::cm_subject;

namespace
{

constexpr mad_exchange::milliseconds first_pause{50};
constexpr std::uint8_t own_service_timeout = 21; // 8.6 s: programs take their time
constexpr std::uint8_t max_service_timeout = 26; // 275 s

constexpr std::uint16_t alternate_path_unsupported = 2;
constexpr unsigned max_probes_returned = 2; // a firewall may refuse a packet while it is configured

} // namespace

mad_exchange::milliseconds time_of(std::uint8_t exponent) noexcept
{
    return std::chrono::ceil<mad_exchange::milliseconds>(std::chrono::nanoseconds(4096ll << exponent));
}

void mad_exchange::send_and_wait(const cm_mad &m, state next, time_point now)
{
    sent_ = m;
    state_ = next;
    tries_ = 0;
    copies_outstanding_ = 1;
    deadline_ = now + std::min(first_pause, response_time_);
    end_ = now + limit_;
    out_.send(sent_);
}

void mad_exchange::respond(const cm_mad &m, state next)
{
    sent_ = m;
    state_ = next;
    deadline_.reset();
    out_.send(sent_);
}

void mad_exchange::close() noexcept
{
    state_ = state::closed;
    deadline_.reset();
    sent_ = {};
}

void mad_exchange::start(cm_attribute attribute, cm_mad m, time_point now)
{
    SOFTRDMA_ASSERT(state_ == state::idle);
    m.attribute = attribute;
    m.local_id = local_id_;
    m.transaction = transaction_ = local_id_;
    send_and_wait(m, state::request_sent, now);
}

void mad_exchange::request(cm_mad m, time_point now)
{
    m.max_retries = max_retries;
    local_qpn_ = m.qpn;
    start(cm_attribute::request, m, now);
}

void mad_exchange::accept_request(const cm_mad &m)
{
    SOFTRDMA_ASSERT(state_ == state::idle);
    resolves_ = m.attribute == cm_attribute::resolve_request;
    state_ = state::request_received;
    remote_id_ = m.local_id;
    remote_qpn_ = m.qpn;
    probes_ = m.guid == device_guid;
    transaction_ = m.transaction;
    max_retries_ = m.max_retries;
    response_time_ = std::min(std::max(time_of(m.local_timeout), 2 * first_pause), limit_);
}

void mad_exchange::reply(cm_mad m, time_point now)
{
    if (state_ != state::request_received)
        return;
    m.attribute = resolves_ ? cm_attribute::resolve_reply : cm_attribute::reply;
    m.local_id = local_id_;
    m.remote_id = remote_id_;
    m.transaction = transaction_;
    if (resolves_)
        return respond(m, state::closed); // remains the answer to a repeated request
    local_qpn_ = m.qpn;
    send_and_wait(m, state::reply_sent, now);
}

void mad_exchange::ready(time_point now)
{
    if (state_ != state::reply_received)
        return;
    respond(message(cm_attribute::ready), state::established);
    establish(now);
}

void mad_exchange::establish(time_point now) noexcept
{
    state_ = state::established;
    deadline_.reset();
    if (probes_)
        deadline_ = now + limit_ / 4;
}

void mad_exchange::send_rejection(std::uint16_t reason, const private_data &data)
{
    if (resolves_ && state_ != state::request_received) // the specification has no message for it
        return close();
    cm_mad m = message(resolves_ ? cm_attribute::resolve_reply : cm_attribute::reject);
    m.reason = resolves_ ? roce::resolve_status::rejected : reason;
    m.subject = state_ == state::reply_received ? cm_subject::reply
                : state_ == state::reply_sent   ? cm_subject::other
                                                : cm_subject::request;
    m.guid = device_guid; // needed if the reason is a timeout
    m.data = data;
    respond(m, state::closed); // remains the answer to the message that the peer repeats
}

void mad_exchange::disconnect(time_point now)
{
    if (state_ != state::reply_received && state_ != state::reply_sent && state_ != state::established)
        return;
    cm_mad m = message(cm_attribute::disconnect_request);
    m.qpn = remote_qpn_;
    m.transaction = ++transaction_;
    send_and_wait(m, state::disconnect_sent, now);
}

void mad_exchange::confirm_disconnect()
{
    if (state_ != state::disconnect_received)
        return;
    out_.send(message(cm_attribute::disconnect_reply));
    close();
}

void mad_exchange::abandon(time_point now)
{
    switch (state_) {
    case state::request_sent:
        return send_rejection(reject_reason::timeout, {});
    case state::request_received:
        return send_rejection(reject_reason::consumer_defined, {});
    case state::disconnect_received:
        return confirm_disconnect();
    default:
        return disconnect(now);
    }
}

void mad_exchange::extend(const cm_mad &receipt, time_point now)
{
    const bool is_awaited = (state_ == state::request_sent && receipt.subject == cm_subject::request) ||
                            (state_ == state::reply_sent && receipt.subject == cm_subject::reply);
    if (!is_awaited)
        return;
    if (state_ == state::request_sent)
        remote_id_ = receipt.local_id;
    is_rejected_ = false;
    deadline_ = now + time_of(std::min(receipt.service_timeout, max_service_timeout));
    end_ = *deadline_ + limit_;
}

void mad_exchange::send_receipt(cm_subject subject)
{
    cm_mad m = message(cm_attribute::receipt);
    m.subject = subject;
    m.service_timeout = own_service_timeout;
    out_.send(m);
}

mad_exchange::event mad_exchange::request_repeated()
{
    if (state_ == state::request_received && !resolves_)
        send_receipt(cm_subject::request);
    else if (state_ == state::reply_sent || sent_.attribute == cm_attribute::reject ||
             sent_.attribute == cm_attribute::resolve_reply)
        out_.send(sent_);
    return event::none;
}

mad_exchange::event mad_exchange::resolved(const cm_mad &m)
{
    if (state_ != state::request_sent)
        return event::none;
    close();
    return m.reason == roce::resolve_status::found             ? event::replied
           : m.reason == roce::resolve_status::service_unknown ? event::unknown_service
                                                               : event::rejected;
}

mad_exchange::event mad_exchange::reply_arrived(const cm_mad &m)
{
    switch (state_) {
    case state::request_sent:
        state_ = state::reply_received;
        deadline_.reset();
        remote_id_ = m.local_id;
        remote_qpn_ = m.qpn;
        probes_ = m.guid == device_guid;
        transaction_ = m.transaction;
        return event::replied;
    case state::reply_received: // the program has not decided yet
        send_receipt(cm_subject::reply);
        break;
    case state::established:
        if (sent_.attribute == cm_attribute::ready)
            out_.send(sent_);
        break;
    case state::closed:
        if (sent_.attribute == cm_attribute::reject && sent_.remote_id == m.local_id) {
            out_.send(sent_);
        } else if (remote_qpn_ == 0) { // the request ended without a reply, which the peer repeats
            cm_mad rejection = roce::make_mad(cm_attribute::reject, m.transaction, local_id_, m.local_id);
            rejection.subject = cm_subject::reply;
            rejection.reason = reject_reason::invalid_id;
            out_.send(rejection);
        }
        break;
    default:
        break;
    }
    return event::none;
}

// A rejection because no program listens answers one copy of the request, and a later copy may reach a new listener.
// Waits for the answers to all copies. If some are lost, one more copy replaces them.
mad_exchange::event mad_exchange::rejection_arrived(const cm_mad &m, time_point now)
{
    switch (state_) {
    case state::reply_received:
    case state::established: // the confirmation came too late
        close();
        return event::lost;
    case state::disconnect_sent:
        close();
        return event::disconnected;
    case state::request_sent:
    case state::request_received:
    case state::reply_sent:
        break;
    default:
        return event::none;
    }
    const bool is_unknown = state_ == state::request_sent && m.reason == reject_reason::invalid_service_id;
    if (is_unknown && remote_id_ == 0 && --copies_outstanding_ > 0) {
        const auto elapsed = std::chrono::ceil<milliseconds>(now - (end_ - limit_));
        deadline_ = now + std::min(first_pause + elapsed, response_time_);
        is_rejected_ = true;
        return event::none;
    }
    close();
    return is_unknown ? event::unknown_service : event::rejected;
}

mad_exchange::event mad_exchange::disconnect_arrived(const cm_mad &m)
{
    const auto confirm = [&] {
        cm_mad reply = message(cm_attribute::disconnect_reply);
        reply.transaction = m.transaction;
        out_.send(reply);
    };
    switch (state_) {
    case state::reply_received:
    case state::reply_sent: // the confirmation was lost
    case state::established:
        if (m.qpn != local_qpn_)
            return event::none;
        state_ = state::disconnect_received;
        deadline_.reset();
        transaction_ = m.transaction;
        return event::disconnect_request;
    case state::disconnect_sent: // both sides disconnect
        confirm();
        close();
        return event::disconnected;
    case state::closed:
        confirm();
        return event::none;
    default: // the program has not decided yet
        return event::none;
    }
}

mad_exchange::event mad_exchange::arrived(const cm_mad &m, time_point now)
{
    const bool is_of_peer = m.local_id == remote_id_ || (remote_id_ == 0 && state_ == state::request_sent) ||
                            (state_ == state::request_sent && m.attribute == cm_attribute::reject) ||
                            (state_ == state::closed && m.attribute == cm_attribute::reply);
    if (!is_of_peer || is_of_resolution(m.attribute) != resolves_)
        return event::none;
    switch (m.attribute) {
    case cm_attribute::request:
    case cm_attribute::resolve_request:
        return request_repeated();
    case cm_attribute::resolve_reply:
        return resolved(m);
    case cm_attribute::receipt:
        extend(m, now);
        return event::none;
    case cm_attribute::reply:
        return reply_arrived(m);
    case cm_attribute::ready:
        if (state_ != state::reply_sent)
            return event::none;
        establish(now);
        sent_ = {};
        return event::ready;
    case cm_attribute::reject:
        return rejection_arrived(m, now);
    case cm_attribute::disconnect_request:
        return disconnect_arrived(m);
    case cm_attribute::disconnect_reply:
        if (state_ != state::disconnect_sent)
            return event::none;
        close();
        return event::disconnected;
    case cm_attribute::load_alternate_path: {
        cm_mad reply = message(cm_attribute::alternate_path_reply);
        reply.transaction = m.transaction;
        reply.reason = state_ == state::closed ? alternate_path_invalid_id : alternate_path_unsupported;
        if (state_ == state::established || state_ == state::closed)
            out_.send(reply);
        return event::none;
    }
    case cm_attribute::alternate_path_reply:
        probes_returned_ = 0;
        if (state_ != state::established || !probes_ || m.reason != alternate_path_invalid_id)
            return event::none;
        close();
        return event::lost;
    }
    return event::none;
}

mad_exchange::event mad_exchange::probe_returned() noexcept
{
    if (state_ != state::established || !probes_ || ++probes_returned_ < max_probes_returned)
        return event::none;
    close();
    return event::lost;
}

mad_exchange::event mad_exchange::expired(time_point now)
{
    if (!deadline_ || now < *deadline_)
        return event::none;
    if (state_ == state::established) {
        out_.send(message(cm_attribute::load_alternate_path));
        establish(now);
        return event::none;
    }
    if (tries_ < max_retries_ && now < end_) {
        ++tries_;
        copies_outstanding_ = std::exchange(is_rejected_, false) ? 1 : copies_outstanding_ + 1;
        // Losses are repaired soon; the last attempt gets the whole time.
        const auto pause = tries_ == max_retries_ ? response_time_
                                                  : spread(std::min(first_pause * (1u << tries_), response_time_));
        deadline_ = std::min(now + pause, std::max(end_, now + first_pause));
        out_.send(sent_);
        return event::none;
    }
    if (state_ != state::disconnect_sent)
        send_rejection(reject_reason::timeout, {});
    close();
    return event::unreachable;
}

} // namespace softrdma
