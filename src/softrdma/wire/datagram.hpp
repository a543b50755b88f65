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

inline constexpr std::size_t max_datagram_payload = 4096; // the port's MTU
inline constexpr std::size_t max_datagram_headers = 24;
inline constexpr std::size_t datagram_immediate_size = 4;
// Of its UDP packet, without the headers of the network.
constexpr std::size_t packet_size(const datagram &d) noexcept
{
    return max_datagram_headers - (d.immediate ? 0 : datagram_immediate_size) + d.payload.size();
}
inline constexpr std::size_t max_datagram = max_datagram_headers + max_datagram_payload;

// What precedes the payload in the UDP packet.
struct datagram_headers {
    std::array<std::byte, max_datagram_headers> bytes;
    std::size_t size = 0;
};
datagram_headers encode(const datagram &d) noexcept;

// Decodes a UDP packet; the payload points into it. False for anything encode() cannot have made.
bool decode(std::span<const std::byte> bytes, datagram &d) noexcept;

// The header of the network that a receive gets before the message: an IPv6 header, which a GRH is. IPv4 addresses are
// in it as the GIDs that they are. RoCE devices leave an IPv4 header in its second half instead; but programs that
// compare GIDs, as UCX does, find them in the first form only.
inline constexpr std::size_t network_header_size = 40;
using network_header = std::array<std::byte, network_header_size>;
using network_address = std::array<std::byte, 16>; // as a GID has it

// Of a UDP packet with so many bytes, which came from `source`.
network_header header_of(const network_address &source, const network_address &destination, std::size_t bytes) noexcept;
// Who has sent what has this header, and to whom. False if it is none.
bool parse(const network_header &header, network_address &source, network_address &destination) noexcept;

} // namespace softrdma
