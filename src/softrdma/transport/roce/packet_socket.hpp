// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "transport/datagram_path.hpp"
#include "wire/roce.hpp"

namespace softrdma::roce
{

inline constexpr std::uint32_t max_path_mtu = 4096;
// Headers of the longest packet with a payload, and its invariant CRC.
inline constexpr std::size_t max_overhead = bth_size + max_extended_size + sizeof(invariant_crc);

// A UDP socket that sends packets, and its port. Does not own the descriptor.
struct packet_socket {
    int fd = -1;
    int family = 0;
    std::uint16_t port = 0;

    // Sends a packet with its invariant CRC to port 4791 of the destination. Returns 0 or an errno value.
    int send(const datagram_route &route, const transport_headers &headers, std::span<const std::byte> payload,
            crc_rule rule = crc_rule::standard) const noexcept;
};

} // namespace softrdma::roce
