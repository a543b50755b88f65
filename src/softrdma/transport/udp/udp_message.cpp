// SPDX-License-Identifier: BSD-3-Clause
#include "transport/udp/udp_message.hpp"
#include "base/gid_table.hpp"

#include <bit>
#include <cstring>
#include <netinet/udp.h>

namespace softrdma
{

static network_address address_of(const in_addr &from) noexcept
{
    sockaddr_storage v4{};
    v4.ss_family = AF_INET;
    reinterpret_cast<sockaddr_in &>(v4).sin_addr = from;
    return std::bit_cast<network_address>(gid_of(v4));
}

template<typename Info>
static void add_control(msghdr &message, int level, int type, const Info &info) noexcept
{
    auto *header = reinterpret_cast<cmsghdr *>(static_cast<std::byte *>(message.msg_control) + message.msg_controllen);
    header->cmsg_level = level;
    header->cmsg_type = type;
    header->cmsg_len = CMSG_LEN(sizeof(info));
    memcpy(CMSG_DATA(header), &info, sizeof(info));
    message.msg_controllen += CMSG_SPACE(sizeof(info));
}

socklen_t end_at(int family, const network_address &address, unsigned interface, std::uint16_t port,
        sockaddr_storage &end) noexcept
{
    end = softrdma::address_of(std::bit_cast<ibv_gid>(address), interface);
    if (family == AF_INET6 && end.ss_family == AF_INET) {
        sockaddr_in6 mapped{};
        mapped.sin6_family = AF_INET6;
        memcpy(&mapped.sin6_addr, address.data(), address.size());
        memcpy(&end, &mapped, sizeof(mapped));
    }
    port_of(end) = htons(port);
    return family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
}

void put_route(msghdr &message, int family, const datagram_route &route, bool with_source) noexcept
{
    constexpr int without_ecn = 0xfc;
    message.msg_controllen = 0;
    if (with_source && family == AF_INET6) {
        in6_pktinfo info{};
        memcpy(&info.ipi6_addr, route.source.data(), route.source.size());
        if (IN6_IS_ADDR_LINKLOCAL(&info.ipi6_addr))
            info.ipi6_ifindex = route.interface;
        add_control(message, IPPROTO_IPV6, IPV6_PKTINFO, info);
    } else if (with_source) {
        in_pktinfo info{};
        memcpy(&info.ipi_spec_dst, route.source.data() + route.source.size() - sizeof(in_addr), sizeof(in_addr));
        add_control(message, IPPROTO_IP, IP_PKTINFO, info);
    }
    if (const int traffic_class = route.traffic_class & without_ecn; traffic_class != 0) {
        if (is_v4(std::bit_cast<ibv_gid>(route.destination)))
            add_control(message, IPPROTO_IP, IP_TOS, traffic_class);
        else
            add_control(message, IPPROTO_IPV6, IPV6_TCLASS, traffic_class);
    }
}

void put_segment_size(msghdr &message, std::uint16_t bytes) noexcept
{
    add_control(message, IPPROTO_UDP, UDP_SEGMENT, bytes);
}

bool find_destination(msghdr &message, network_address &destination) noexcept
{
    for (cmsghdr *c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
        if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
            in6_pktinfo info;
            memcpy(&info, CMSG_DATA(c), sizeof(info));
            destination = std::bit_cast<network_address>(info.ipi6_addr);
            return true;
        }
        if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
            in_pktinfo info;
            memcpy(&info, CMSG_DATA(c), sizeof(info));
            destination = address_of(info.ipi_addr);
            return true;
        }
    }
    return false;
}

void find_source(const sockaddr_storage &from, network_address &source, std::uint16_t &port) noexcept
{
    source = std::bit_cast<network_address>(gid_of(from));
    port = ntohs(port_of(from));
}

} // namespace softrdma
