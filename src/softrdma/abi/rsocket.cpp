// SPDX-License-Identifier: BSD-3-Clause
// rsockets are stream sockets over RDMA, here plain sockets.
#include "abi/device.hpp"

#include <cstdarg>
#include <fcntl.h>
#include <rdma/rsocket.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include <unistd.h>

using softrdma::abi::fail_with;

#define SOCKET_FUNCTION(result, name, parameters, arguments)                                                           \
    extern "C" result r##name parameters;                                                                              \
    extern "C" result r##name parameters                                                                               \
    {                                                                                                                  \
        return name arguments;                                                                                         \
    }

SOCKET_FUNCTION(int, socket, (int domain, int type, int protocol), (domain, type, protocol))
SOCKET_FUNCTION(int, bind, (int fd, const sockaddr *addr, socklen_t size), (fd, addr, size))
SOCKET_FUNCTION(int, listen, (int fd, int backlog), (fd, backlog))
SOCKET_FUNCTION(int, accept, (int fd, sockaddr *addr, socklen_t *size), (fd, addr, size))
SOCKET_FUNCTION(int, connect, (int fd, const sockaddr *addr, socklen_t size), (fd, addr, size))
SOCKET_FUNCTION(int, shutdown, (int fd, int how), (fd, how))
SOCKET_FUNCTION(int, close, (int fd), (fd))
SOCKET_FUNCTION(ssize_t, recv, (int fd, void *buf, std::size_t size, int flags), (fd, buf, size, flags))
SOCKET_FUNCTION(ssize_t, recvfrom,
        (int fd, void *buf, std::size_t size, int flags, sockaddr *from, socklen_t *from_size),
        (fd, buf, size, flags, from, from_size))
SOCKET_FUNCTION(ssize_t, recvmsg, (int fd, msghdr *message, int flags), (fd, message, flags))
SOCKET_FUNCTION(ssize_t, send, (int fd, const void *buf, std::size_t size, int flags), (fd, buf, size, flags))
SOCKET_FUNCTION(ssize_t, sendto,
        (int fd, const void *buf, std::size_t size, int flags, const sockaddr *to, socklen_t to_size),
        (fd, buf, size, flags, to, to_size))
SOCKET_FUNCTION(ssize_t, sendmsg, (int fd, const msghdr *message, int flags), (fd, message, flags))
SOCKET_FUNCTION(ssize_t, read, (int fd, void *buf, std::size_t size), (fd, buf, size))
SOCKET_FUNCTION(ssize_t, readv, (int fd, const iovec *segments, int count), (fd, segments, count))
SOCKET_FUNCTION(ssize_t, write, (int fd, const void *buf, std::size_t size), (fd, buf, size))
SOCKET_FUNCTION(ssize_t, writev, (int fd, const iovec *segments, int count), (fd, segments, count))
SOCKET_FUNCTION(int, poll, (struct pollfd * fds, nfds_t count, int timeout), (fds, count, timeout))
SOCKET_FUNCTION(int, select, (int count, fd_set *readable, fd_set *writable, fd_set *exceptional, timeval *timeout),
        (count, readable, writable, exceptional, timeout))
SOCKET_FUNCTION(int, getpeername, (int fd, sockaddr *addr, socklen_t *size), (fd, addr, size))
SOCKET_FUNCTION(int, getsockname, (int fd, sockaddr *addr, socklen_t *size), (fd, addr, size))
// Newer than the oldest supported headers (rdma-core 62).
SOCKET_FUNCTION(int, epoll_ctl, (int set, int op, int fd, epoll_event *event), (set, op, fd, event))
SOCKET_FUNCTION(int, epoll_wait, (int set, epoll_event *events, int max_events, int timeout_ms),
        (set, events, max_events, timeout_ms))

extern "C" {

int rsetsockopt(int fd, int level, int name, const void *value, socklen_t size)
{
    return level == SOL_RDMA ? 0 : setsockopt(fd, level, name, value, size);
}

int rgetsockopt(int fd, int level, int name, void *value, socklen_t *size)
{
    return level == SOL_RDMA ? fail_with(-1, ENOTSUP) : getsockopt(fd, level, name, value, size);
}

int rfcntl(int fd, int command, ...)
{
    va_list args;
    va_start(args, command);
    const long argument = va_arg(args, long);
    va_end(args);
    return fcntl(fd, command, argument);
}

off_t riomap(int, void *, std::size_t, int, int, off_t)
{
    return fail_with<off_t>(-1, EOPNOTSUPP);
}

int riounmap(int, void *, std::size_t)
{
    return fail_with(-1, EOPNOTSUPP);
}

std::size_t riowrite(int, const void *, std::size_t, off_t, int)
{
    return fail_with(static_cast<std::size_t>(-1), EOPNOTSUPP);
}

int repoll_create(int flags);
int repoll_create(int flags)
{
    return epoll_create1(flags);
}

} // extern "C"
