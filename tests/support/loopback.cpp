// SPDX-License-Identifier: BSD-3-Clause
#include "loopback.hpp"

#include <arpa/inet.h>
#include <cerrno>
#include <sys/socket.h>
#include <unistd.h>

#include "cmocka_headers.hpp"

sockaddr_in loopback_address(unsigned port)
{
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(static_cast<std::uint16_t>(port));
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return at;
}

int bind_free_port(unsigned &port)
{
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in at = loopback_address(0);
    socklen_t size = sizeof(at);
    assert_int_equal(bind(fd, reinterpret_cast<sockaddr *>(&at), size), 0);
    assert_int_equal(getsockname(fd, reinterpret_cast<sockaddr *>(&at), &size), 0);
    port = ntohs(at.sin_port);
    return fd;
}

unsigned free_port()
{
    unsigned port = 0;
    close(bind_free_port(port));
    return port;
}

int connect_to_port(unsigned port, int flags)
{
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
    const sockaddr_in at = loopback_address(port);
    if (connect(fd, reinterpret_cast<const sockaddr *>(&at), sizeof(at)) == 0 || errno == EINPROGRESS)
        return fd;
    close(fd);
    return -1;
}
