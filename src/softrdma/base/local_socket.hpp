// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/unique_fd.hpp"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/un.h>

// Messages with descriptors between processes on this host, over unix(7) sockets with abstract names. A name is local
// to its network namespace, and the kernel releases it when its process exits.
namespace softrdma
{

struct local_address : sockaddr_un {
    [[gnu::format(printf, 2, 3)]] explicit local_address(const char *format, ...) noexcept;
    const sockaddr *get() const noexcept { return reinterpret_cast<const sockaddr *>(this); }
    socklen_t size = 0;
};

unique_fd open_local_socket() noexcept; // empty, with errno set, on error
// Process ID of the peer, if it belongs to the same user; 0 outside the local PID namespace.
std::optional<std::uint32_t> process_of_own_user(int socket) noexcept;

// Argument for sendmsg(2) or recvmsg(2). `end`: the address of the other end, or NULL.
template<typename Control, typename Address = sockaddr_storage>
msghdr message_of(std::span<iovec> parts, Control &control, Address *end = nullptr) noexcept
{
    return {.msg_name = end,
            .msg_namelen = end == nullptr ? socklen_t{0} : socklen_t{sizeof(*end)},
            .msg_iov = parts.data(),
            .msg_iovlen = parts.size(),
            .msg_control = &control,
            .msg_controllen = sizeof(control),
            .msg_flags = 0};
}

// Credentials of the sender of a datagram, which the kernel attests on a socket with SO_PASSCRED.
std::optional<ucred> sender_of(msghdr &message) noexcept;

enum class reception {
    message,
    nothing,
    end, // the connection has ended, or the message is invalid
};

inline constexpr std::size_t max_passed = 33; // descriptors of one message

// These functions do not wait. Received descriptors are closed with their owners.
bool send_with_descriptors(int socket, const void *from, std::size_t size, std::span<const int> fds) noexcept;
reception receive_with_descriptors(int socket, void *to, std::size_t size, std::span<unique_fd> fds) noexcept;

} // namespace softrdma
