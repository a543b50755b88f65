// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "wire/cm_message.hpp"
#include "wire/datagram.hpp"

namespace softrdma::roce
{

// Messages of the connection manager as RoCE carries them: management datagrams (MADs) of 256 bytes between the queue
// pairs 1 of two hosts (InfiniBand specification volume 1, chapters 12 and 13).

inline constexpr std::uint32_t management_qpn = 1;
inline constexpr std::uint32_t management_qkey = 0x80010000;
inline constexpr std::size_t mad_size = 256;

enum class cm_attribute : std::uint16_t {
    request = 0x10,              // REQ
    receipt = 0x11,              // MRA: the receiver of a message needs more time
    reject = 0x12,               // REJ
    reply = 0x13,                // REP
    ready = 0x14,                // RTU
    disconnect_request = 0x15,   // DREQ
    disconnect_reply = 0x16,     // DREP
    resolve_request = 0x17,      // SIDR_REQ
    resolve_reply = 0x18,        // SIDR_REP
    load_alternate_path = 0x19,  // LAP
    alternate_path_reply = 0x1a, // APR
};

// Message that an MRA or a REJ refers to.
enum class cm_subject : std::uint8_t {
    request,
    reply,
    other,
};

namespace resolve_status
{
inline constexpr std::uint16_t found = 0;
inline constexpr std::uint16_t service_unknown = 1;
inline constexpr std::uint16_t rejected = 2;
} // namespace resolve_status

// A message. Decoded fields that it lacks are zero. `qpn` is that of the receiver in a DREQ; `data` is the whole field.
struct cm_mad : cm_parameters {
    cm_attribute attribute{};
    std::uint64_t transaction = 0;
    std::uint32_t local_id = 0;  // communication IDs of its sender and its receiver, or the request ID of a resolution
    std::uint32_t remote_id = 0; // 0 in a request
    std::uint64_t service_id = 0;
    std::uint64_t guid = 0; // GUID of the sender's device; in a REJ, sent only
    std::uint32_t qkey = 0;
    std::uint8_t transport = 0;       // transport service type, in requests
    std::uint8_t mtu = 0;             // ibv_mtu
    std::uint8_t traffic_class = 0;   // traffic class of the path that a request proposes
    std::uint8_t ack_timeout = 0;     // this and the other timeouts are exponents: 4.096 us * 2^n
    std::uint8_t local_timeout = 0;   // time in which the sender responds to the reply
    std::uint8_t remote_timeout = 0;  // time in which it expects the reply
    std::uint8_t max_retries = 0;     // bound for repeated messages of the connection manager
    std::uint8_t service_timeout = 0; // MRA: time that the sender needs
    cm_subject subject{};
    std::uint16_t reason = 0; // REJ; APR and SIDR_REP: status
    network_address source{}; // GIDs of the path that a request proposes
    network_address destination{};
};

inline cm_mad make_mad(
        cm_attribute attribute, std::uint64_t transaction, std::uint32_t local_id, std::uint32_t remote_id) noexcept
{
    cm_mad m;
    m.attribute = attribute;
    m.transaction = transaction;
    m.local_id = local_id;
    m.remote_id = remote_id;
    return m;
}

using mad_bytes = std::array<std::byte, mad_size>;
mad_bytes encode(const cm_mad &m) noexcept;
// Returns false for other management datagrams, other attributes, and values that no message can have.
bool decode(std::span<const std::byte> bytes, cm_mad &m) noexcept;

constexpr bool is_request(cm_attribute attribute) noexcept
{
    return attribute == cm_attribute::request || attribute == cm_attribute::resolve_request;
}
constexpr bool is_of_resolution(cm_attribute attribute) noexcept
{
    return attribute == cm_attribute::resolve_request || attribute == cm_attribute::resolve_reply;
}

// Addressing header of rdma_cm, the first bytes of the private data of a request.
inline constexpr std::size_t ip_header_size = 36;
inline constexpr std::size_t request_field_size = request_private_size + ip_header_size;
inline constexpr std::size_t resolve_field_size = resolve_request_private_size + ip_header_size;
struct ip_header {
    bool v4 = false;
    std::uint16_t source_port = 0;
    network_address source{}; // IPv4 addresses are mapped ones
    network_address destination{};
};
// Puts the header before the private data of a program, in a field of that size.
private_data with_header(const ip_header &header, const private_data &data, std::size_t field_size) noexcept;
// Separates both. Returns false if the private data of the request does not start with such a header.
bool split_header(const private_data &field, ip_header &header, private_data &data) noexcept;

constexpr datagram management_datagram(std::uint32_t psn) noexcept
{
    return {.dest_qpn = management_qpn, .source_qpn = management_qpn, .psn = psn, .qkey = management_qkey};
}
constexpr bool is_management(const datagram &d) noexcept
{
    return d.dest_qpn == management_qpn && d.source_qpn == management_qpn && d.qkey == management_qkey &&
           !d.immediate && d.payload.size() == mad_size;
}

} // namespace softrdma::roce
