// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/unique_fd.hpp"
#include "transport/shm/layout.hpp"

#include <optional>
#include <span>
#include <sys/socket.h>
#include <sys/un.h>
#include <type_traits>

// How a process hands descriptors over to peers of its host that may not take them: over a socket of the local kind,
// whose abstract name each network namespace has for itself. Each message of it is one of these; whoever asks proves
// with the token that the process has told it its address in shared memory.
namespace softrdma::net
{

enum class fd_request_kind : std::uint32_t {
    arena, // and the completion eventfd, if there is one
    file,  // behind a region
};

struct fd_request {
    local::token_bytes token{};
    fd_request_kind kind{};
    std::int32_t completion_fd = -1;
    std::uint64_t generation = 0; // generation of the region, for the asker
    std::uint32_t key = 0;
    std::uint32_t unused = 0;
};

struct fd_reply {
    fd_request_kind kind{};
    std::uint32_t key = 0;
    std::uint64_t generation = 0;
    std::uint64_t offset = 0; // of the region's first page in the file
};
// A ring for datagrams, to whom they are for; the answer is the same with the eventfd that wakes the reader.
struct ring_offer {
    std::uint32_t version = 2;
    std::uint32_t port = 0; // of the queue pairs that send
};
static_assert(std::has_unique_object_representations_v<fd_request> &&
              std::has_unique_object_representations_v<fd_reply> &&
              std::has_unique_object_representations_v<ring_offer>);

struct fd_server_address : sockaddr_un {
    explicit fd_server_address(std::uint64_t number) noexcept : fd_server_address("fd", number) {}
    // Where queue pairs of that port take rings for datagrams.
    static fd_server_address of_datagrams(std::uint16_t port) noexcept { return {"datagrams", port}; }
    const sockaddr *get() const noexcept { return reinterpret_cast<const sockaddr *>(this); }
    socklen_t size = 0;

private:
    fd_server_address(const char *what, std::uint64_t number) noexcept;
};

// A socket for messages; none with errno.
local::unique_fd open_local_socket() noexcept;
// The number of the process at the other end, if it belongs to our user; 0 if it is in no PID namespace of ours. So
// says the kernel.
std::optional<std::uint32_t> process_of_own_user(int socket) noexcept;

inline constexpr std::size_t max_fds = 2;
using descriptors = std::array<local::unique_fd, max_fds>;

enum class reception {
    message,
    nothing, // for now
    end,     // or what is no such message
};

// These do not wait. Descriptors that come are closed with their holders.
bool send_message(int socket, const fd_request &w) noexcept;
bool send_message(int socket, const fd_reply &g, std::span<const int> given) noexcept;
bool send_message(int socket, const ring_offer &o, int given) noexcept;
reception receive(int socket, ring_offer &o, descriptors &given) noexcept;
// The kind of the next reply, which stays in the socket.
reception upcoming(int socket, fd_request_kind &kind) noexcept;
reception receive(int socket, fd_request &w) noexcept;
reception receive(int socket, fd_reply &g, descriptors &given) noexcept;

} // namespace softrdma::net
