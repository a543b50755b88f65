// SPDX-License-Identifier: BSD-3-Clause
#include "cm/port_numbers.hpp"
#include "base/log.hpp"
#include "base/gid_table.hpp"
#include "cm/cm.hpp"
#include "transport/shm/fd_server.hpp"

#include <algorithm>
#include <cerrno>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

namespace softrdma
{

// Opens a socket on a free port for both families, or for IPv4 without IPv6. Returns -1 and sets errno on error.
static int open_any_port(std::uint16_t &port)
{
    for (const int family : {AF_INET6, AF_INET}) {
        const int fd = socket(family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        if (fd < 0)
            continue;
        sockaddr_storage any{};
        any.ss_family = static_cast<sa_family_t>(family);
        auto *address = reinterpret_cast<sockaddr *>(&any);
        socklen_t size = cm::detail::address_size(address);
        if (family == AF_INET6)
            set_option(fd, IPPROTO_IPV6, IPV6_V6ONLY, 0);
        if (bind(fd, address, size) == 0 && getsockname(fd, address, &size) == 0) {
            port = ntohs(port_of(any));
            return fd;
        }
        const int error = errno;
        close(fd);
        errno = error;
    }
    return -1;
}

port_numbers::open_port *port_numbers::port_with_free_index()
{
    for (open_port &p : ports_) {
        if (!p.used.all())
            return &p;
    }
    if (start_event_loop() == nullptr)
        return nullptr;
    open_port fresh;
    const int fd = open_any_port(fresh.port);
    if (fd < 0) {
        log::write(log::level::error, "queue pair: no TCP port for its number: %s", strerror(errno));
        return nullptr;
    }
    fresh.listening = listener::open(fd, SOMAXCONN, [](int socket) { return handshake::accepted(socket, 0); });
    if (fresh.listening == nullptr)
        return nullptr;
    return &ports_.emplace_back(std::move(fresh));
}

std::uint32_t port_numbers::reserve()
{
    open_port *p = port_with_free_index();
    if (p == nullptr)
        return 0;
    while (p->used.test(p->next))
        p->next = (p->next + 1) % per_port;
    const auto index = p->next;
    p->used.set(index);
    p->next = (index + 1) % per_port;
    return static_cast<std::uint32_t>(p->port) << 8 | static_cast<std::uint32_t>(index);
}

void port_numbers::release(std::uint32_t number)
{
    const auto at =
            std::find_if(ports_.begin(), ports_.end(), [&](const open_port &p) { return p.port == number >> 8; });
    if (at == ports_.end())
        return;
    at->used.reset(number % per_port);
    if (at->used.any())
        return;
    at->listening->close();
    ports_.erase(at);
}

bool port_numbers::has(std::uint32_t number) const noexcept
{
    return std::any_of(ports_.begin(), ports_.end(),
            [&](const open_port &p) { return p.port == number >> 8 && p.used.test(number % per_port); });
}

} // namespace softrdma
