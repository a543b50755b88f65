// SPDX-License-Identifier: BSD-3-Clause
// rsockets are stream sockets over RDMA; on a device that is TCP underneath they are plain sockets.
#include "abi/device.hpp"

#include <cstdarg>
#include <fcntl.h>
#include <rdma/rsocket.h>
#include <sys/epoll.h>
#include <sys/uio.h>
#include <unistd.h>

using softrdma::abi::fail_with;

extern "C" {

int rsocket(int domain, int type, int protocol)
{
    return socket(domain, type, protocol);
}

int rbind(int fd, const sockaddr *addr, socklen_t size)
{
    return bind(fd, addr, size);
}

int rlisten(int fd, int backlog)
{
    return listen(fd, backlog);
}

int raccept(int fd, sockaddr *addr, socklen_t *size)
{
    return accept(fd, addr, size);
}

int rconnect(int fd, const sockaddr *addr, socklen_t size)
{
    return connect(fd, addr, size);
}

int rshutdown(int fd, int how)
{
    return shutdown(fd, how);
}

int rclose(int fd)
{
    return close(fd);
}

ssize_t rrecv(int fd, void *buf, std::size_t size, int flags)
{
    return recv(fd, buf, size, flags);
}

ssize_t rrecvfrom(int fd, void *buf, std::size_t size, int flags, sockaddr *from, socklen_t *from_size)
{
    return recvfrom(fd, buf, size, flags, from, from_size);
}

ssize_t rrecvmsg(int fd, msghdr *message, int flags)
{
    return recvmsg(fd, message, flags);
}

ssize_t rsend(int fd, const void *buf, std::size_t size, int flags)
{
    return send(fd, buf, size, flags);
}

ssize_t rsendto(int fd, const void *buf, std::size_t size, int flags, const sockaddr *to, socklen_t to_size)
{
    return sendto(fd, buf, size, flags, to, to_size);
}

ssize_t rsendmsg(int fd, const msghdr *message, int flags)
{
    return sendmsg(fd, message, flags);
}

ssize_t rread(int fd, void *buf, std::size_t size)
{
    return read(fd, buf, size);
}

ssize_t rreadv(int fd, const iovec *segments, int count)
{
    return readv(fd, segments, count);
}

ssize_t rwrite(int fd, const void *buf, std::size_t size)
{
    return write(fd, buf, size);
}

ssize_t rwritev(int fd, const iovec *segments, int count)
{
    return writev(fd, segments, count);
}

int rpoll(pollfd *fds, nfds_t count, int timeout)
{
    return poll(fds, count, timeout);
}

int rselect(int count, fd_set *readable, fd_set *writable, fd_set *exceptional, timeval *timeout)
{
    return select(count, readable, writable, exceptional, timeout);
}

int rgetpeername(int fd, sockaddr *addr, socklen_t *size)
{
    return getpeername(fd, addr, size);
}

int rgetsockname(int fd, sockaddr *addr, socklen_t *size)
{
    return getsockname(fd, addr, size);
}

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

// Newer than the oldest supported headers (rdma-core 62).
int repoll_create(int flags);
int repoll_create(int flags)
{
    return epoll_create1(flags);
}

int repoll_ctl(int set, int op, int fd, epoll_event *event);
int repoll_ctl(int set, int op, int fd, epoll_event *event)
{
    return epoll_ctl(set, op, fd, event);
}

int repoll_wait(int set, epoll_event *events, int max_events, int timeout_ms);
int repoll_wait(int set, epoll_event *events, int max_events, int timeout_ms)
{
    return epoll_wait(set, events, max_events, timeout_ms);
}

} // extern "C"
