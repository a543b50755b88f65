// SPDX-License-Identifier: BSD-3-Clause
#include "channel.hpp"

#include <cstring>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include "failure.hpp"
#include "message/status.hpp"
#include "resolver.hpp"

namespace mirror
{

namespace
{

// Detects a target host that has failed within 15 s.
void watch_peer(int fd)
{
    const int on = 1, idle_s = 5, interval_s = 3, probes = 3, unanswered_ms = 15'000;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof(interval_s));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unanswered_ms, sizeof(unanswered_ms));
}

// Connects a non-blocking socket. Returns 0 or an errno value.
int connect_to(int fd, const addrinfo &at, const replica::deadline &until)
{
    if (::connect(fd, at.ai_addr, at.ai_addrlen) == 0)
        return 0;
    if (errno != EINPROGRESS)
        return errno;
    int error = ETIMEDOUT;
    socklen_t size = sizeof(error);
    if (replica::wait_for(fd, POLLOUT, until))
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    return error;
}

int code_of(int os_errno)
{
    switch (os_errno) {
    case ETIMEDOUT:
        return RPMA_MIRROR_E_TIMEOUT;
    case ECONNRESET:
        return RPMA_MIRROR_E_CONNECTION;
    case ESTALE:
        return RPMA_MIRROR_E_FENCED;
    case EEXIST:
        return RPMA_MIRROR_E_EXISTS;
    case ENOENT:
        return RPMA_MIRROR_E_NOT_FOUND;
    case EBUSY:
        return RPMA_MIRROR_E_BUSY;
    default:
        return RPMA_MIRROR_E_REJECTED;
    }
}

failure failure_of(const std::string &name, const replica::control_error &error)
{
    return {code_of(error.os_errno), name + ": " + error.what(), error.os_errno};
}

std::string name_of(const target_settings &to)
{
    return "target " + to.name();
}

replica::fd_owner connect(const target_settings &to, const replica::deadline &until)
{
    replica::fd_owner connection;
    int error = 0, left = 0;
    const address_info found = resolve(to, until);
    for (const addrinfo *at = found.get(); at != nullptr; at = at->ai_next)
        ++left;
    for (const addrinfo *at = found.get(); at != nullptr; at = at->ai_next) {
        connection.reset(socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        if (!connection.valid() && replica::is_local_shortage(errno))
            throw system_failure(name_of(to) + ": cannot create a socket");
        // Limits the time of each address, so that an unresponsive one leaves time for the others.
        error = connection.valid() ? connect_to(connection.get(), *at, until.share(left--)) : errno;
        if (error == 0) {
            watch_peer(connection.get());
            return connection;
        }
    }
    throw failure(error == ETIMEDOUT ? RPMA_MIRROR_E_TIMEOUT : RPMA_MIRROR_E_CONNECTION,
            name_of(to) + ": " + std::strerror(error) + " (is rpmemd --listen running there?)", error);
}

std::unique_ptr<replica::tls_stream> connect(
        const target_settings &to, const replica::tls_keys &key, const replica::deadline &until)
{
    auto created = std::make_unique<replica::tls_stream>(connect(to, until), key);
    const replica::handshake result = created->shake_hands(until);
    if (result == replica::handshake::complete)
        return created;
    if (result == replica::handshake::failed)
        throw failure(RPMA_MIRROR_E_REJECTED, name_of(to) + ": " + created->failure());
    const bool is_late = result == replica::handshake::timed_out;
    throw failure_of(
            name_of(to), replica::control_error(is_late ? replica::received::timed_out : replica::received::ended));
}

} // namespace

replica::tls_keys read_key(const std::string &path)
{
    try {
        replica::tls_keys keys = replica::read_key_file(path);
        if (keys.size() == 1)
            return keys;
    } catch (const replica::file_error &error) {
        throw failure(RPMA_MIRROR_E_SYSTEM, error.what(), error.os_errno());
    }
    throw failure(RPMA_MIRROR_E_SYSTEM,
            "key file " + path + ": contains several keys (a client needs a file with only its own)", EBADMSG);
}

channel::channel(const target_settings &to, const replica::tls_keys &key, const replica::deadline &until)
    : control_client(connect(to, key, until)), name_(name_of(to))
{
    if (greet(until) != replica::feature_mirror)
        throw failure(RPMA_MIRROR_E_REJECTED, name_ + ": is not an rpmemd --listen");
}

std::exception_ptr channel::exception_of(const replica::control_error &error) const
{
    return std::make_exception_ptr(failure_of(name_, error));
}

} // namespace mirror
