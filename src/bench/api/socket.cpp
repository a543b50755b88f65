// SPDX-License-Identifier: BSD-3-Clause
#include "socket.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "failure.hpp"
#include "owner.hpp"

namespace bench
{

namespace
{

addrinfo_owner resolve(const address &where, int flags)
{
    addrinfo hints{};
    hints.ai_flags = flags;
    hints.ai_socktype = SOCK_STREAM;
    addrinfo *list = nullptr;
    if (const int error = getaddrinfo(where.host.c_str(), where.port.c_str(), &hints, &list); error != 0)
        throw failure("cannot resolve " + where.host + " port " + where.port + ": " + gai_strerror(error), exit_usage);
    return addrinfo_owner(list);
}

template<class Use>
int first_socket(const addrinfo *list, Use use)
{
    int error = 0;
    for (; list != nullptr; list = list->ai_next) {
        const int fd = socket(list->ai_family, list->ai_socktype | SOCK_CLOEXEC, list->ai_protocol);
        if (fd >= 0 && use(fd, *list)) {
            const int on = 1;
            setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
            return fd;
        }
        error = errno;
        if (fd >= 0)
            close(fd);
    }
    errno = error;
    return -1;
}

} // namespace

int listen_on(const address &at)
{
    const int fd = first_socket(resolve(at, AI_PASSIVE).get(), [](int s, const addrinfo &a) {
        const int on = 1;
        setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
        return bind(s, a.ai_addr, a.ai_addrlen) == 0 && listen(s, SOMAXCONN) == 0;
    });
    if (fd < 0 && errno == EADDRINUSE)
        throw failure("port " + at.port + " of " + at.host + " is in use (choose another with --port, or 0 for any)");
    if (fd < 0)
        throw system_failure("cannot listen on " + at.host + " port " + at.port);
    return fd;
}

int connect_to(const address &to)
{
    const int fd = first_socket(
            resolve(to, 0).get(), [](int s, const addrinfo &a) { return connect(s, a.ai_addr, a.ai_addrlen) == 0; });
    if (fd < 0)
        throw system_failure("cannot connect to " + to.host + " port " + to.port);
    return fd;
}

std::string port_of(int fd)
{
    sockaddr_storage name{};
    socklen_t len = sizeof name;
    if (getsockname(fd, reinterpret_cast<sockaddr *>(&name), &len) != 0)
        throw system_failure("getsockname() failed");
    char port[NI_MAXSERV];
    getnameinfo(reinterpret_cast<const sockaddr *>(&name), len, nullptr, 0, port, sizeof port, NI_NUMERICSERV);
    return port;
}

std::string free_port(const std::string &host)
{
    const int fd = listen_on({host, "0"});
    std::string port = port_of(fd);
    close(fd);
    return port;
}

} // namespace bench
