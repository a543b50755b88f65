// SPDX-License-Identifier: BSD-3-Clause
#include "listen/listener.hpp"

#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "config/failure.hpp"

namespace rpmemd
{

namespace
{

bool is_wildcard(const sockaddr &address)
{
    if (address.sa_family == AF_INET)
        return reinterpret_cast<const sockaddr_in &>(address).sin_addr.s_addr == htonl(INADDR_ANY);
    return IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<const sockaddr_in6 &>(address).sin6_addr);
}

} // namespace

listener::listener(const char *option, const location &at, bool wildcard_allowed)
{
    const std::string name = std::string(option) + ": ";
    addrinfo hints{};
    hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo *list = nullptr;
    if (const int error = getaddrinfo(at.address.c_str(), at.port.c_str(), &hints, &list); error != 0)
        throw failure(EINVAL, name + at.address + ":" + at.port + ": " + gai_strerror(error));
    const std::unique_ptr<addrinfo, decltype(&freeaddrinfo)> found(list, freeaddrinfo);
    // Writers receive this address for their data connections, so it must be a specific one.
    if (!wildcard_allowed && is_wildcard(*found->ai_addr))
        throw failure(EINVAL, name + "wildcard address not allowed (use the address of the RDMA device)");
    socket_.reset(socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    const int on = 1;
    if (!socket_.valid() || setsockopt(socket_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
            bind(socket_.get(), found->ai_addr, found->ai_addrlen) != 0 || listen(socket_.get(), SOMAXCONN) != 0)
        throw system_failure(name + "cannot listen on " + at.address + ":" + at.port);
}

unsigned listener::port() const
{
    sockaddr_storage name{};
    socklen_t size = sizeof(name);
    if (getsockname(socket_.get(), reinterpret_cast<sockaddr *>(&name), &size) != 0)
        throw system_failure("cannot listen");
    return ntohs(name.ss_family == AF_INET ? reinterpret_cast<sockaddr_in &>(name).sin_port
                                           : reinterpret_cast<sockaddr_in6 &>(name).sin6_port);
}

} // namespace rpmemd
