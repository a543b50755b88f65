// SPDX-License-Identifier: BSD-3-Clause
#include "transport/roce/probe.hpp"
#include "base/gid_table.hpp"
#include "wire/cm_mad.hpp"
#include "wire/roce.hpp"

#include <algorithm>
#include <bit>
#include <netinet/in.h>

namespace softrdma::roce
{

unique_fd probe(sockaddr_storage from, sockaddr_storage to) noexcept
{
    unique_fd fd(socket(to.ss_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const bool v4 = to.ss_family == AF_INET;
    const int level = v4 ? IPPROTO_IP : IPPROTO_IPV6;
    const int one = 1;
    const int no_fragments = IP_PMTUDISC_DO; // the same number for IPv6
    port_of(from) = 0;
    port_of(to) = htons(udp_port);
    auto *own = reinterpret_cast<sockaddr *>(&from);
    socklen_t size = v4 ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    // A connected socket would report errors without an option, but would not send the identification 0.
    setsockopt(fd.get(), level, v4 ? IP_RECVERR : IPV6_RECVERR, &one, sizeof(one));
    setsockopt(fd.get(), level, v4 ? IP_MTU_DISCOVER : IPV6_MTU_DISCOVER, &no_fragments, sizeof(no_fragments));
    if (bind(fd.get(), own, size) != 0 || getsockname(fd.get(), own, &size) != 0)
        return {};
    cm_mad unknown{}; // it belongs to no connection, so devices drop it
    unknown.attribute = cm_attribute::disconnect_reply;
    const mad_bytes message = encode(unknown);
    const transport_headers headers = encode(management_datagram(0), message.size());
    std::array<std::byte, bth_size + max_extended_size + mad_size + sizeof(invariant_crc)> packet;
    auto *end = std::copy_n(headers.bytes.begin(), headers.size, packet.data());
    end = std::copy(message.begin(), message.end(), end);
    const udp_flow flow{.source = std::bit_cast<network_address>(gid_of(from)),
            .destination = std::bit_cast<network_address>(gid_of(to)),
            .source_port = ntohs(port_of(from))};
    const invariant_crc crc = crc_of(flow, {packet.data(), end});
    end = std::copy(crc.begin(), crc.end(), end);
    const auto bytes = static_cast<std::size_t>(end - packet.data());
    return sendto(fd.get(), packet.data(), bytes, MSG_NOSIGNAL, reinterpret_cast<const sockaddr *>(&to), size) >= 0
                   ? std::move(fd)
                   : unique_fd();
}

bool is_closed(const unique_fd &probe) noexcept
{
    int error = 0;
    socklen_t size = sizeof(error);
    return getsockopt(probe.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0;
}

} // namespace softrdma::roce
