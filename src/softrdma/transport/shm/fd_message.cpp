// SPDX-License-Identifier: BSD-3-Clause
#include "transport/shm/fd_message.hpp"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <unistd.h>

namespace softrdma
{

namespace
{

union control_space {
    cmsghdr header;
    std::byte bytes[CMSG_SPACE(max_fds * sizeof(int))];
};

bool send_bytes(int socket, const void *from, std::size_t size, std::span<const int> given) noexcept
{
    iovec segment{const_cast<void *>(from), size};
    control_space control{};
    msghdr message{};
    message.msg_iov = &segment;
    message.msg_iovlen = 1;
    if (!given.empty()) {
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(given.size_bytes());
        cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(given.size_bytes());
        memcpy(CMSG_DATA(header), given.data(), given.size_bytes());
    }
    return sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(size);
}

void take_descriptors(msghdr &message, descriptors &given) noexcept
{
    const cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header == nullptr || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
        return;
    const std::size_t count = std::min((header->cmsg_len - CMSG_LEN(0)) / sizeof(int), given.size());
    for (std::size_t i = 0; i < count; ++i) {
        int fd = -1;
        memcpy(&fd, CMSG_DATA(header) + i * sizeof(fd), sizeof(fd));
        given[i] = unique_fd(fd);
    }
}

reception receive_bytes(int socket, void *to, std::size_t size, descriptors &given) noexcept
{
    iovec segment{to, size};
    control_space control{};
    msghdr message{};
    message.msg_iov = &segment;
    message.msg_iovlen = 1;
    message.msg_control = &control;
    message.msg_controllen = sizeof(control);
    ssize_t n = -1;
    do {
        n = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    } while (n < 0 && errno == EINTR);
    if (n < 0)
        return errno == EAGAIN ? reception::nothing : reception::end;
    take_descriptors(message, given);
    const bool whole = n == static_cast<ssize_t>(size) && (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
    return whole ? reception::message : reception::end;
}

} // namespace

fd_server_address::fd_server_address(const char *what, std::uint64_t number) noexcept : sockaddr_un{}
{
    sun_family = AF_UNIX;
    // An abstract name starts with a zero byte, and its length is that of the address.
    const int length = snprintf(
            sun_path + 1, sizeof(sun_path) - 1, "softrdma-%s/%016llx", what, static_cast<unsigned long long>(number));
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<std::size_t>(length));
}

unique_fd open_local_socket() noexcept
{
    return unique_fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

std::optional<std::uint32_t> process_of_own_user(int socket) noexcept
{
    ucred who{};
    socklen_t size = sizeof(who);
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &who, &size) != 0 || who.uid != geteuid())
        return std::nullopt;
    return static_cast<std::uint32_t>(who.pid);
}

bool send_message(int socket, const fd_request &w) noexcept
{
    return send_bytes(socket, &w, sizeof(w), {});
}

bool send_message(int socket, const fd_reply &g, std::span<const int> given) noexcept
{
    return send_bytes(socket, &g, sizeof(g), given);
}

bool send_message(int socket, const ring_offer &o, int given) noexcept
{
    return send_bytes(socket, &o, sizeof(o), {&given, 1});
}

reception receive(int socket, ring_offer &o, descriptors &given) noexcept
{
    return receive_bytes(socket, &o, sizeof(o), given);
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
    descriptors unwanted;
    return receive_bytes(socket, &w, sizeof(w), unwanted);
}

reception receive(int socket, fd_reply &g, descriptors &given) noexcept
{
    return receive_bytes(socket, &g, sizeof(g), given);
}

} // namespace softrdma
