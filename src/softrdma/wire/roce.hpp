// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "wire/datagram.hpp"
#include "wire/headers.hpp"

namespace softrdma::roce
{

// A packet of RoCE version 2 (annex A17): IP, UDP, BTH, extended headers, payload padded to 4 bytes, invariant CRC.

inline constexpr std::uint16_t udp_port = 4791;
inline constexpr std::size_t ipv4_size = 20;
inline constexpr std::size_t ipv6_size = 40;
inline constexpr std::size_t udp_size = 8;

// Both ends of a packet, and the port of its sender; IPv4 addresses are mapped ones.
struct udp_flow {
    network_address source;
    network_address destination;
    std::uint16_t source_port;
};

// IP and UDP header without checksums, as an unconnected UDP socket of Linux that does not fragment sends them.
struct network_headers {
    std::array<std::byte, ipv6_size + udp_size> bytes;
    std::size_t ip_size = 0;
    std::size_t size = 0;
};
network_headers encode(const udp_flow &flow, std::size_t udp_length) noexcept;

// Sum of 16-bit words, continued from `sum`, of which an Internet checksum is the complement.
std::uint32_t sum_words(std::uint32_t sum, std::span<const std::byte> bytes) noexcept;
// Puts the checksum into an IPv4 header, which has zeros in its place.
void put_ip_checksum(std::span<std::byte> header) noexcept;

// Network header before a received datagram of `bytes` bytes: the IPv6 header, or zeros and the IPv4 header.
network_header header_of(const udp_flow &flow, std::size_t bytes) noexcept;

struct transport_headers {
    std::array<std::byte, bth_size + max_extended_size> bytes;
    std::size_t size = 0;
    std::size_t padding = 0; // zero bytes after the payload
};
transport_headers encode(const packet &p, std::size_t payload_size) noexcept;
transport_headers encode(const datagram &d, std::size_t payload_size) noexcept;

// Decodes the packet of a reliable connection from the payload of its UDP packet, except its invariant CRC; `p.payload`
// points into it. Returns false for packets that encode() cannot produce, except for reserved bits.
bool decode(std::span<const std::byte> bytes, packet &p) noexcept;
bool decode_datagram(std::span<const std::byte> bytes, datagram &d) noexcept;

// Invariant CRC of a packet, in the order of its bytes on the wire. `headers` starts with the BTH; headers, payload and
// padding have a multiple of 4 bytes. `identification` is of IPv4. For a FLUSH, SoftRoCE adds all bytes once more.
using invariant_crc = std::array<std::byte, 4>;
enum class crc_rule : std::uint8_t {
    standard,
    packet_twice
};
invariant_crc crc_of(const udp_flow &flow, std::span<const std::byte> headers, std::span<const std::byte> payload = {},
        crc_rule rule = crc_rule::standard, std::uint16_t identification = 0) noexcept;
// Returns whether the packet with its CRC is intact; a FLUSH may follow either rule. An IPv4 header may have any
// identification, which receivers cannot see. `bytes` has at least the size of a BTH and a CRC.
bool has_valid_crc(const udp_flow &flow, std::span<const std::byte> bytes) noexcept;

} // namespace softrdma::roce
