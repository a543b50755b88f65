// SPDX-License-Identifier: BSD-3-Clause
#include "base/local_socket.hpp"

#include "base/assert.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <unistd.h>

namespace softrdma
{

namespace
{

union control_space {
    cmsghdr header;
    std::byte bytes[CMSG_SPACE(max_passed * sizeof(int))];
};

void take_descriptors(msghdr &message, std::span<unique_fd> fds) noexcept
{
    const cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header == nullptr || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS)
        return;
    const std::size_t count = std::min((header->cmsg_len - CMSG_LEN(0)) / sizeof(int), fds.size());
    for (std::size_t i = 0; i < count; ++i) {
        int fd = -1;
        memcpy(&fd, CMSG_DATA(header) + i * sizeof(fd), sizeof(fd));
        fds[i] = unique_fd(fd);
    }
}

} // namespace

local_address::local_address(const char *format, ...) noexcept : sockaddr_un{}
{
    sun_family = AF_UNIX;
    // An abstract name starts with a zero byte, and its length is that of the address.
    va_list values;
    va_start(values, format);
    const int length = vsnprintf(sun_path + 1, sizeof(sun_path) - 1, format, values);
    va_end(values);
    size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + static_cast<std::size_t>(length));
}

unique_fd open_local_socket() noexcept
{
    return unique_fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
}

std::optional<std::uint32_t> process_of_own_user(int socket) noexcept
{
    ucred credentials{};
    socklen_t size = sizeof(credentials);
    if (getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) != 0 || credentials.uid != geteuid())
        return std::nullopt;
    return static_cast<std::uint32_t>(credentials.pid);
}

std::optional<ucred> sender_of(msghdr &message) noexcept
{
    const cmsghdr *header = CMSG_FIRSTHDR(&message);
    if (header == nullptr || header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_CREDENTIALS)
        return std::nullopt;
    ucred sender{};
    memcpy(&sender, CMSG_DATA(header), sizeof(sender));
    return sender;
}

bool send_with_descriptors(int socket, const void *from, std::size_t size, std::span<const int> fds) noexcept
{
    SOFTRDMA_ASSERT(fds.size() <= max_passed);
    iovec segment{const_cast<void *>(from), size};
    control_space control{};
    msghdr message{};
    message.msg_iov = &segment;
    message.msg_iovlen = 1;
    if (!fds.empty()) {
        message.msg_control = &control;
        message.msg_controllen = CMSG_SPACE(fds.size_bytes());
        cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(fds.size_bytes());
        memcpy(CMSG_DATA(header), fds.data(), fds.size_bytes());
    }
    return sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(size);
}

reception receive_with_descriptors(int socket, void *to, std::size_t size, std::span<unique_fd> fds) noexcept
{
    SOFTRDMA_ASSERT(fds.size() <= max_passed);
    iovec segment{to, size};
    control_space control{};
    msghdr message = message_of({&segment, 1}, control);
    message.msg_controllen = CMSG_SPACE(fds.size_bytes()); // the kernel closes descriptors that do not fit
    ssize_t n = -1;
    do {
        n = recvmsg(socket, &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    } while (n < 0 && errno == EINTR);
    if (n < 0)
        return errno == EAGAIN ? reception::nothing : reception::end;
    take_descriptors(message, fds);
    const bool whole = n == static_cast<ssize_t>(size) && (message.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) == 0;
    return whole ? reception::message : reception::end;
}

} // namespace softrdma
