// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "wire/packet.hpp"
#include "wire/shm_address.hpp"

#include <array>
#include <cstring>

namespace softrdma
{

// Bytes of private data in each message on InfiniBand and RoCE. The receiver always gets the full field.
inline constexpr std::size_t request_private_size = 56;
inline constexpr std::size_t reply_private_size = 196;
inline constexpr std::size_t reject_private_size = 148;
inline constexpr std::size_t resolve_request_private_size = 180;
inline constexpr std::size_t resolve_reply_private_size = 136;

using session_key = std::array<std::byte, 16>;

struct private_data {
    std::array<std::byte, 256> bytes{};
    std::size_t size = 0; // size of the field, which may exceed the data of the user

    // Returns false if the user's data does not fit into a field of that size.
    bool assign(const void *from, std::size_t length, std::size_t field) noexcept
    {
        if (length > field)
            return false;
        size = field;
        if (length > 0)
            memcpy(bytes.data(), from, length);
        return true;
    }
};

// Parameters of a connection that the connection managers exchange, in both their protocols.
struct cm_parameters {
    std::uint32_t qpn = 0; // queue pair of the sender
    std::uint32_t psn = 0;
    std::uint8_t responder_resources = 0;
    std::uint8_t initiator_depth = 0;
    std::uint8_t flow_control = 0;
    std::uint8_t retry_count = 0;
    std::uint8_t rnr_retry_count = 0;
    std::uint8_t srq = 0;
    private_data data{};
};

// Payload of cm_request and cm_reply; of resolve_*, only key, private data and, in the reply, queue pair number.
struct cm_handshake : cm_parameters {
    session_key key{};
    softrdma::shm_address shm_address; // absent from peers that support no shared memory
};

struct direct_handshake {
    std::uint32_t from = 0;
    std::uint32_t to = 0;
    softrdma::shm_address shm_address;
};

// Payload of cm_ready and direct_ready: whether the peers share memory, and the reason if not.
struct shm_decision {
    bool shares = false;
    no_shm_reason reason{};
};

// Reasons to reject a request or a reply, as numbered by InfiniBand.
namespace reject_reason
{
inline constexpr std::uint16_t timeout = 4;
inline constexpr std::uint16_t invalid_id = 6;
inline constexpr std::uint16_t invalid_service_id = 8;
inline constexpr std::uint16_t invalid_transport = 9;
inline constexpr std::uint16_t stale_connection = 10;
inline constexpr std::uint16_t invalid_gid = 12;
inline constexpr std::uint16_t invalid_mtu = 26;
inline constexpr std::uint16_t consumer_defined = 28;
inline constexpr std::uint16_t vendor_option_not_supported = 35;
} // namespace reject_reason

struct cm_rejection {
    std::uint32_t reason = 0;
    private_data data;
};

struct cm_payload {
    std::array<std::byte, 448> bytes;
    std::size_t size = 0;

    operator std::span<const std::byte>() const noexcept { return {bytes.data(), size}; }
};

// Must be raised with each change of packets or messages that older versions do not understand.
inline constexpr std::uint8_t wire_version = 2;
// Version of the peer that sent a message which decode() rejects; 0 if the message has none.
std::uint8_t version_of(std::span<const std::byte> payload) noexcept;

cm_payload encode(const cm_handshake &h) noexcept;
cm_payload encode(const direct_handshake &h) noexcept;
cm_payload encode(const shm_decision &d) noexcept;
cm_payload encode(const cm_rejection &r) noexcept;
// Returns false for messages that encode() cannot produce, and for another version of the protocol.
bool decode(std::span<const std::byte> payload, cm_handshake &h) noexcept;
bool decode(std::span<const std::byte> payload, direct_handshake &h) noexcept;
bool decode(std::span<const std::byte> payload, shm_decision &d) noexcept;
bool decode(std::span<const std::byte> payload, cm_rejection &r) noexcept;

} // namespace softrdma
