// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace softrdma
{

// A message of an unreliable-datagram queue pair, in the terms of the InfiniBand transport headers (BTH, DETH, ImmDt).
struct datagram {
    bool solicited = false;
    bool immediate = false;
    std::uint32_t dest_qpn = 0;
    std::uint32_t source_qpn = 0;
    std::uint32_t psn = 0;
    std::uint32_t qkey = 0;
    std::uint32_t imm_data = 0;           // network byte order, as in struct ibv_wc
    std::span<const std::byte> payload{}; // inbound datagrams only
};

inline constexpr std::size_t max_datagram_payload = 4096; // MTU of the port
inline constexpr std::size_t max_datagram_headers = 24;
inline constexpr std::size_t datagram_immediate_size = 4;
constexpr std::size_t packet_size(const datagram &d) noexcept // its UDP packet, without the network headers
{
    return max_datagram_headers - (d.immediate ? 0 : datagram_immediate_size) + d.payload.size();
}
inline constexpr std::size_t max_datagram = max_datagram_headers + max_datagram_payload;

struct datagram_headers {
    std::array<std::byte, max_datagram_headers> bytes;
    std::size_t size = 0;
};
datagram_headers encode(const datagram &d) noexcept;

// Decodes a UDP packet; the payload points into it. Returns false for packets that encode() cannot produce.
bool decode(std::span<const std::byte> bytes, datagram &d) noexcept;

// Network header that a receive gets before the message: an IPv6 header, the format of a GRH. For datagrams in the
// device's own format it contains IPv4 addresses as mapped GIDs, because programs that compare GIDs, as UCX does, find
// them in this form only. Over RoCE, as from hardware, an IPv4 header is in the last 20 bytes.
inline constexpr std::size_t network_header_size = 40;
using network_header = std::array<std::byte, network_header_size>;
using network_address = std::array<std::byte, 16>;    // same format as a GID
inline constexpr std::size_t mapped_v4_position = 12; // bytes before the IPv4 address of a mapped one
inline constexpr network_address mapped_prefix = [] {
    network_address address{};
    address[10] = address[11] = std::byte{0xff};
    return address;
}();

// Network header of a UDP packet of `bytes` bytes from `source`, in the first form.
network_header header_of(const network_address &source, const network_address &destination, std::size_t bytes) noexcept;
// Reads source and destination from a header of either form. Returns false if it is invalid.
bool parse(const network_header &header, network_address &source, network_address &destination) noexcept;

} // namespace softrdma
