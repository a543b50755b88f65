// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "transport/datagram_path.hpp"

#include <array>
#include <netinet/in.h>
#include <sys/socket.h>

namespace softrdma::net
{

// What goes with a UDP packet to the kernel and comes with one from it.
union control_data {
    cmsghdr header;
    std::array<std::byte, CMSG_SPACE(sizeof(in6_pktinfo))> v6;
    std::array<std::byte, CMSG_SPACE(sizeof(in_pktinfo))> v4;
};

// As a socket of that family takes it: one of IPv6 takes IPv4 addresses mapped.
socklen_t end_at(int family, const network_address &address, unsigned interface, std::uint16_t port,
        sockaddr_storage &end) noexcept;
void put_source(msghdr &message, int family, const datagram_route &route) noexcept;
// False if the kernel did not say to which address it was sent.
bool find_destination(msghdr &message, network_address &destination) noexcept;
void find_source(const sockaddr_storage &from, network_address &source, std::uint16_t &port) noexcept;

} // namespace softrdma::net
