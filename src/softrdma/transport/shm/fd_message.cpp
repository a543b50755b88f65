// SPDX-License-Identifier: BSD-3-Clause
#include "transport/shm/fd_message.hpp"

#include <cerrno>

namespace softrdma
{

bool send_message(int socket, const fd_request &w) noexcept
{
    return send_with_descriptors(socket, &w, sizeof(w), {});
}

bool send_message(int socket, const fd_reply &g, std::span<const int> fds) noexcept
{
    return send_with_descriptors(socket, &g, sizeof(g), fds);
}

bool send_message(int socket, const ring_offer &o, int fd) noexcept
{
    return send_with_descriptors(socket, &o, sizeof(o), {&fd, 1});
}

reception receive(int socket, ring_offer &o, received_fds &fds) noexcept
{
    return receive_with_descriptors(socket, &o, sizeof(o), fds);
}

reception upcoming(int socket, fd_request_kind &kind) noexcept
{
    fd_reply g;
    const ssize_t n = recv(socket, &g, sizeof(g), MSG_DONTWAIT | MSG_PEEK | MSG_TRUNC);
    kind = g.kind;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return reception::nothing;
    return n == static_cast<ssize_t>(sizeof(g)) ? reception::message : reception::end;
}

reception receive(int socket, fd_request &w) noexcept
{
    received_fds unwanted;
    return receive_with_descriptors(socket, &w, sizeof(w), unwanted);
}

reception receive(int socket, fd_reply &g, received_fds &fds) noexcept
{
    return receive_with_descriptors(socket, &g, sizeof(g), fds);
}

} // namespace softrdma
