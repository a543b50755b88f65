// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "wire/cm_mad.hpp"

#include <chrono>
#include <optional>

namespace softrdma
{

// One side of a connection by management datagrams, which a network may lose, repeat and reorder. Repeats messages
// without response within limits, and responds again to repeated messages. The caller passes messages and the time.
class mad_exchange
{
public:
    using time_point = std::chrono::steady_clock::time_point;
    using milliseconds = std::chrono::milliseconds;

    class outlet
    {
    public:
        virtual ~outlet() = default;
        virtual void send(const roce::cm_mad &m) = 0;
    };

    enum class event {
        none,
        replied,         // the peer has accepted the request
        ready,           // the peer has confirmed the reply
        rejected,        // the peer has rejected the request or the reply
        unknown_service, // no program of the peer's host listens
        disconnect_request,
        disconnected, // the peer has confirmed the end
        unreachable,  // no response in time
        lost,         // the process of the peer has ended, or the peer has no such connection
    };

    static constexpr std::uint8_t max_retries = 15;
    // Answer to a LAP, which asks whether the process of the peer exists.
    static constexpr std::uint16_t alternate_path_invalid_id = 1;

    mad_exchange(std::uint32_t local_id, milliseconds limit, outlet &out) noexcept
        : out_(out), local_id_(local_id), limit_(limit), response_time_(limit / 8)
    {
    }

    // Steps of the active side.
    void request(roce::cm_mad m, time_point now);
    // Requests the queue pair of a service. The reply, or a rejection with a status as reason, closes the exchange.
    void resolve(const roce::cm_mad &m, time_point now)
    {
        resolves_ = true;
        start(roce::cm_attribute::resolve_request, m, now);
    }
    void ready(time_point now);
    // Steps of the passive side.
    void accept_request(const roce::cm_mad &m);
    void reply(roce::cm_mad m, time_point now);
    // Steps of both. The caller must not reject a connection that is established, nor disconnect before.
    void reject(std::uint16_t reason, const private_data &data)
    {
        if (state_ == state::request_received || state_ == state::reply_received)
            send_rejection(reason, data);
    }
    void disconnect(time_point now);
    void confirm_disconnect();
    void abandon(time_point now);

    event arrived(const roce::cm_mad &m, time_point now);
    event probe_returned() noexcept; // a LAP came back: no process of the host receives messages
    std::optional<time_point> deadline() const noexcept { return deadline_; } // when to call expired(), if at all
    event expired(time_point now);

    bool is_closed() const noexcept { return state_ == state::closed; }
    bool is_of_own_device() const noexcept { return probes_; } // the peer uses this device
    bool is_established_with(std::uint32_t qpn) const noexcept
    {
        return state_ == state::established && remote_qpn_ == qpn;
    }
    std::uint32_t local_id() const noexcept { return local_id_; }
    std::uint32_t remote_id() const noexcept { return remote_id_; }

private:
    enum class state {
        idle,
        request_sent,
        reply_received,
        request_received,
        reply_sent,
        established,
        disconnect_sent,
        disconnect_received,
        closed,
    };

    roce::cm_mad message(roce::cm_attribute attribute) const noexcept
    {
        return roce::make_mad(attribute, transaction_, local_id_, remote_id_);
    }
    event resolved(const roce::cm_mad &m);
    void start(roce::cm_attribute attribute, roce::cm_mad m, time_point now);
    void send_and_wait(const roce::cm_mad &m, state next, time_point now);
    void respond(const roce::cm_mad &m, state next);
    // Pauses differ, so that clients that a full backlog turned away do not all return at the same time.
    milliseconds spread(milliseconds pause) const noexcept { return pause - pause * (local_id_ & 0xff) / 512; }
    void close() noexcept;
    void send_receipt(roce::cm_subject subject);
    void send_rejection(std::uint16_t reason, const private_data &data);
    void establish(time_point now) noexcept;
    void extend(const roce::cm_mad &receipt, time_point now);
    event request_repeated();
    event reply_arrived(const roce::cm_mad &m);
    event rejection_arrived(const roce::cm_mad &m, time_point now);
    event disconnect_arrived(const roce::cm_mad &m);

    outlet &out_;
    state state_ = state::idle;
    const std::uint32_t local_id_;
    std::uint32_t remote_id_ = 0;
    std::uint32_t local_qpn_ = 0;
    std::uint32_t remote_qpn_ = 0;
    std::uint64_t transaction_ = 0;
    const milliseconds limit_;
    milliseconds response_time_; // maximum time that the peer needs
    std::uint8_t max_retries_ = max_retries;
    roce::cm_mad sent_; // last message; it is sent again if it is lost
    std::optional<time_point> deadline_;
    time_point end_{};
    unsigned tries_ = 0;
    unsigned copies_outstanding_ = 0; // copies of the request whose answer may arrive
    bool is_rejected_ = false;        // one of them, because no program listens
    bool resolves_ = false;
    bool probes_ = false;          // the peer uses this device, and answers a LAP
    unsigned probes_returned_ = 0; // in succession
};

mad_exchange::milliseconds time_of(std::uint8_t exponent) noexcept; // 4.096 us * 2^exponent

} // namespace softrdma
