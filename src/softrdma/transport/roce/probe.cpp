// SPDX-License-Identifier: BSD-3-Clause
#include "transport/roce/probe.hpp"
#include "base/gid_table.hpp"
#include "transport/roce/packet_socket.hpp"
#include "wire/cm_mad.hpp"

#include <bit>
#include <netinet/in.h>

namespace softrdma::roce
{

unique_fd probe(sockaddr_storage from, sockaddr_storage to) noexcept
{
    unique_fd fd(socket(to.ss_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    const bool v4 = to.ss_family == AF_INET;
    const int level = v4 ? IPPROTO_IP : IPPROTO_IPV6;
    port_of(from) = 0;
    auto *own = reinterpret_cast<sockaddr *>(&from);
    socklen_t size = v4 ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    // A connected socket would report errors without an option, but would not send the identification 0.
    set_option(fd.get(), level, v4 ? IP_RECVERR : IPV6_RECVERR, 1);
    set_option(fd.get(), level, v4 ? IP_MTU_DISCOVER : IPV6_MTU_DISCOVER, IP_PMTUDISC_DO); // same number for IPv6
    if (bind(fd.get(), own, size) != 0 || getsockname(fd.get(), own, &size) != 0)
        return {};
    cm_mad unknown{}; // it belongs to no connection, so devices drop it
    unknown.attribute = cm_attribute::disconnect_reply;
    const mad_bytes message = encode(unknown);
    const datagram_route route{.source = std::bit_cast<network_address>(gid_of(from)),
            .destination = std::bit_cast<network_address>(gid_of(to)),
            .interface = v4 ? 0 : reinterpret_cast<const sockaddr_in6 &>(to).sin6_scope_id,
            .traffic_class = 0};
    const packet_socket socket{.fd = fd.get(), .family = to.ss_family, .port = ntohs(port_of(from))};
    const outgoing_packet packet{encode(management_datagram(0), message.size()), message};
    const int error = socket.send(route, {&packet, 1});
    return error == 0 ? std::move(fd) : unique_fd();
}

bool is_closed(const unique_fd &probe) noexcept
{
    int error = 0;
    socklen_t size = sizeof(error);
    return getsockopt(probe.get(), SOL_SOCKET, SO_ERROR, &error, &size) != 0 || error != 0;
}

} // namespace softrdma::roce
