// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "transport/roce/protocol.hpp"

#include <deque>
#include <optional>

namespace softrdma::roce
{

// Requester half of the protocol: gives the packets of each message their PSNs, keeps them until they are acknowledged,
// and sends them again from the first one that is missing (go-back-N). The messages above have consecutive numbers, the
// `psn` of their packets, however many packets they need.
class sender
{
public:
    sender(const attributes &attr, packet_outlet &out)
        : attr_(attr), out_(out), next_psn_(attr.send_psn & psn_mask), end_psn_(next_psn_)
    {
    }

    // Accepts a segment of a request.
    void post(const packet &header, std::span<const iovec> payload, time_point now);
    // Handles a response of the peer. Returns the response to the message above, if the packet completes a part of one.
    std::optional<packet> arrived(const packet &p, time_point now);
    // Time at which expired() must be called, if a response is outstanding.
    std::optional<time_point> deadline() const noexcept { return deadline_; }
    void expired(time_point now);
    // True once a packet was sent again as often as the retry count allows, or memory to send was lost.
    bool has_failed() const noexcept { return failed_; }
    bool congested() const noexcept { return requests_.size() >= max_queued; }

private:
    // Packets that may be in flight; READ requests count as their responses. Halved when packets were lost, and
    // enlarged by one with each window that is acknowledged.
    static constexpr std::uint32_t max_window = 64;
    static constexpr std::uint32_t ack_interval = 16;
    // A long READ is requested in parts of this number of packets, so that the peer never has more responses to send.
    static constexpr std::uint32_t read_packets = 32;
    static constexpr std::size_t max_queued = 1024;

    struct request {
        packet header; // a READ requests only the responses that are missing
        std::vector<std::byte> payload;
        std::uint32_t count;       // PSNs
        std::uint32_t message;     // number of the message
        std::uint32_t message_psn; // PSN of its first packet
        bool begins;               // first response of a READ; the others have one response
        bool ends;                 // last packet of its message
    };

    void add(const packet &header, std::span<const std::byte> payload, std::uint32_t count, bool begins, bool ends);
    void add_read(packet header);
    void pump(time_point now);
    void go_back(time_point now);
    void retry(time_point now);
    void go_back_once(time_point now);
    void progressed(time_point now);
    void start_timer(time_point now);
    void remove_first() noexcept;
    // Removes the requests before the PSN. Returns false if one of them still needs a response of its own.
    bool remove_before(std::uint32_t psn, std::optional<packet> &up, time_point now);
    packet rejected(const packet &p);
    std::optional<packet> responded(const packet &p, time_point now);

    const attributes attr_;
    packet_outlet &out_;
    packet_cutter cutter_;
    std::deque<request> requests_; // not acknowledged
    std::size_t sent_ = 0;         // number of these that are in flight
    std::uint32_t in_flight_ = 0;  // PSNs
    std::uint32_t window_ = max_window;
    std::uint32_t acknowledged_ = 0; // requests since the window changed
    std::uint32_t round_trips_ = 0;
    std::uint32_t next_psn_;
    std::uint32_t end_psn_; // after the last packet that was ever sent
    std::uint32_t message_psn_ = 0;
    std::optional<std::uint32_t> restart_; // number of the message that must be posted next, from its start
    packet first_header_;                  // header of the first segment of the message
    std::optional<time_point> deadline_;
    unsigned tries_ = 0;
    bool recovering_ = false; // has gone back because of a missing response, and no other has arrived
    bool failed_ = false;
};

} // namespace softrdma::roce
