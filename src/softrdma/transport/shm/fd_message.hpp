// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/local_socket.hpp"
#include "transport/shm/layout.hpp"

#include <array>
#include <span>
#include <type_traits>

// Protocol for passing descriptors to peers on the host that cannot open them. The messages are the structures below.
// The token proves that the requester received the shared memory address from the process itself.
namespace softrdma
{

enum class fd_request_kind : std::uint32_t {
    arena, // and the completion eventfd, if any
    file,  // file behind a region
};

struct fd_request {
    token_bytes token{};
    fd_request_kind kind{};
    std::int32_t completion_fd = -1;
    std::uint64_t generation = 0; // generation of the region, for the requester
    std::uint32_t key = 0;
    std::uint32_t unused = 0;
};

struct fd_reply {
    fd_request_kind kind{};
    std::uint32_t key = 0;
    std::uint64_t generation = 0;
    std::uint64_t offset = 0; // offset of the region's first page in the file
};
// Offer of a datagram ring to its reader. The response is the same message with the eventfd that wakes the reader.
struct ring_offer {
    std::uint32_t version = 2;
    std::uint32_t port = 0; // port of the sending queue pairs
};
static_assert(std::has_unique_object_representations_v<fd_request> &&
              std::has_unique_object_representations_v<fd_reply> &&
              std::has_unique_object_representations_v<ring_offer>);

struct fd_server_address : local_address {
    explicit fd_server_address(std::uint64_t number) noexcept : fd_server_address("fd", number) {}
    static fd_server_address of_datagrams(std::uint16_t port) noexcept { return {"datagrams", port}; }

private:
    fd_server_address(const char *service, std::uint64_t number) noexcept
        : local_address("softrdma-%s/%016llx", service, static_cast<unsigned long long>(number))
    {
    }
};

inline constexpr std::size_t max_fds = 2;
using received_fds = std::array<unique_fd, max_fds>;

template<typename Message>
bool send_message(int socket, const Message &m, std::span<const int> fds = {}) noexcept
{
    return send_with_descriptors(socket, &m, sizeof(m), fds);
}
template<typename Message>
reception receive(int socket, Message &m, received_fds &fds) noexcept
{
    return receive_with_descriptors(socket, &m, sizeof(m), fds);
}

} // namespace softrdma
