// SPDX-License-Identifier: BSD-3-Clause
#include "net/neighbour.hpp"
#include "local/policy.hpp"

#include <cstdio>
#include <cstring>
#include <netinet/in.h>
#include <sys/socket.h>

namespace softrdma::net::neighbour
{

namespace
{

void set_end(const sockaddr_storage &from, std::array<std::uint8_t, 16> &address, std::uint16_t &port)
{
    if (from.ss_family == AF_INET6) {
        const auto &v6 = reinterpret_cast<const sockaddr_in6 &>(from);
        memcpy(address.data(), &v6.sin6_addr, address.size());
        port = v6.sin6_port;
    } else { // as an IPv6 socket of the peer would show it
        const auto &v4 = reinterpret_cast<const sockaddr_in &>(from);
        address = {};
        address[10] = address[11] = 0xff;
        memcpy(&address[12], &v4.sin_addr, sizeof(v4.sin_addr));
        port = v4.sin_port;
    }
}

local::connection_ends ends_of(const link &path)
{
    local::connection_ends ends;
    sockaddr_storage here{};
    sockaddr_storage there{};
    socklen_t size = sizeof(here);
    if (getsockname(path.fd(), reinterpret_cast<sockaddr *>(&here), &size) != 0)
        return ends;
    size = sizeof(there);
    if (getpeername(path.fd(), reinterpret_cast<sockaddr *>(&there), &size) != 0)
        return ends;
    set_end(here, ends.own_address, ends.own_port);
    set_end(there, ends.peer_address, ends.peer_port);
    return ends;
}

} // namespace

local::hello introduce(queue_pair &qp, const link &path)
{
    return qp.introduce(ends_of(path));
}

std::shared_ptr<local::channel> reach(const local::hello &h, const link &path)
{
    std::string why;
    auto channel = local::channel::open(h, ends_of(path), why);
    if (channel == nullptr && required())
        fprintf(stderr, "softrdma: no local path to the peer (%s); run without SOFTRDMA_PATH=local\n", why.c_str());
    return channel;
}

bool required()
{
    return local::policy() == local::path_policy::direct;
}

} // namespace softrdma::net::neighbour
