// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "transport/datagram_path.hpp"
#include "wire/roce.hpp"

namespace softrdma::roce
{

inline constexpr std::uint32_t max_path_mtu = 4096;
// Headers of the longest packet with a payload, and its invariant CRC.
inline constexpr std::size_t max_overhead = bth_size + max_extended_size + sizeof(invariant_crc);

// A packet to send. Its padding and its invariant CRC follow the payload.
struct outgoing_packet {
    std::size_t size() const noexcept
    {
        return headers.size + payload.size() + headers.padding + sizeof(invariant_crc);
    }

    transport_headers headers;
    std::span<const std::byte> payload;
};

// A UDP socket that sends packets, and its port. Does not own the descriptor.
struct packet_socket {
    int fd = -1;
    int family = 0;
    std::uint16_t port = 0;
    bool is_bound = false; // to the source address of its packets

    static constexpr std::size_t max_packets = 64;
    static constexpr std::size_t max_bytes = UINT16_MAX - ipv4_size - udp_size;

    // Sends packets with their invariant CRCs to port 4791 of the destination. All have the size of the first one; the
    // last may be shorter. The kernel cuts the message into packets, and gives them the identifications 0, 1, 2 and so
    // on. Returns 0 or an errno value: EIO or EINVAL if the kernel cannot cut messages to the destination.
    int send(const datagram_route &route, std::span<const outgoing_packet> packets,
            crc_rule rule = crc_rule::standard) const noexcept;
};

} // namespace softrdma::roce
