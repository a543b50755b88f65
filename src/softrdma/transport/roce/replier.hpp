// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "transport/roce/protocol.hpp"

#include <deque>
#include <optional>

namespace softrdma::roce
{

// Responder half of the protocol: passes the peer's requests on in their order, each once, and gives the responses
// their PSNs. Like sender, it numbers whole messages upward.
class replier
{
public:
    replier(const attributes &attr, packet_outlet &out)
        : attr_(attr), out_(out), expected_(attr.receive_psn & psn_mask), message_(expected_),
          acknowledged_(psn_add(expected_, psn_mask))
    {
    }

    // Handles a request of the peer. Returns the packet for the responder above, if it must execute or reject one.
    std::optional<packet> arrived(const packet &p);
    // Accepts a response, or a segment of one.
    void reply(const packet &header, std::span<const iovec> payload);
    // Called after the received packets were handled and the responder above has replied to those that it could.
    void received_all();
    // True after a rejection was sent, or memory to send was lost: later requests get no response.
    bool has_failed() const noexcept { return failed_; }

private:
    // A message that was passed on and has no response yet.
    struct message {
        opcode op;
        std::uint32_t number;
        std::uint32_t first;   // PSN of its first packet
        std::uint32_t last;    // PSN of its last packet, or of the last response to a READ
        std::uint32_t receive; // PSN of the packet that consumes a receive
        std::uint32_t msn;
    };

    std::optional<packet> accept(const packet &p);
    std::optional<packet> repeated(const packet &p);
    bool is_valid(const packet &p) const noexcept;
    void acknowledge(std::uint32_t psn, std::uint8_t code);
    void remove_until(std::uint32_t number);
    void receiver_not_ready(const packet &header);
    void reject(const packet &header);
    void respond(const packet &header, std::span<const iovec> payload);
    void send_response(packet p, std::span<const std::byte> payload, std::uint32_t &psn);

    const attributes attr_;
    packet_outlet &out_;
    std::uint32_t expected_; // PSN
    std::uint32_t message_;  // number of the message that is arriving, or of the next one
    std::uint32_t first_psn_ = 0;
    std::uint32_t receive_psn_ = 0;
    std::uint32_t msn_ = 0;           // messages that have arrived
    std::uint32_t completed_msn_ = 0; // messages that were answered
    std::uint32_t acknowledged_;      // PSN of the last acknowledgment
    bool in_message_ = false;
    bool message_is_write_ = false;
    bool drops_until_expected_ = false; // a NAK is outstanding
    bool is_invalid_ = false;           // the expected packet: it and later ones are ignored
    bool owes_nak_ = false;
    bool owes_ack_ = false;
    bool failed_ = false;
    std::deque<message> outstanding_;
    std::deque<packet> kept_; // last responses to atomic operations, FLUSH and ATOMIC WRITE
    packet_cutter cutter_;
    std::uint32_t response_psn_ = 0;
    packet_cutter replay_cutter_;
    std::uint32_t replay_psn_ = 0;
};

} // namespace softrdma::roce
