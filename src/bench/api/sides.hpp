// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>

// What the apis share: the engine is a template over one of them, so that the timed loop calls it directly.
namespace bench
{

struct queue_sizes {
    std::uint32_t sends, receives;
    std::uint32_t completions() const { return sends + receives; }
};

enum class signal {
    on_error, // the operation completes only if it fails, or a later one succeeds
    always
};

// Which side of the connection a region is for.
enum class region_use {
    local_data,  // source and destination of the client's reads and writes
    target_data, // what the client reads and writes, flushed to visibility
    target_pmem, // the same, flushed to persistence as well
    messages
};

// Completions of receives carry the number of their buffer with this bit.
constexpr std::uint64_t receive_mark = std::uint64_t{1} << 32;

constexpr std::uint32_t greeting_magic = 0x31424d52; // "RMB1" in memory

// Private data of a request and, for TCP, the first bytes on the connection.
struct greeting {
    std::uint32_t magic = greeting_magic;
    std::uint32_t connection = 0; // its number, which says where its slice of the data is
};

// The 21 bytes by which librpma describes a region.
struct [[gnu::packed]] region_descriptor {
    std::uint64_t address, size;
    std::uint32_t key;
    std::uint8_t usage;
};

// Private data of the server's answer.
struct [[gnu::packed]] welcome {
    std::uint32_t magic = greeting_magic;
    region_descriptor region{};
    std::uint8_t peer_cfg = 0; // the descriptor of a peer configuration
};
static_assert(sizeof(welcome) == 26);

// Reads what the transport may have padded. False if it is too short or something else.
template<class T>
bool read_private_data(const void *data, std::size_t len, T &to)
{
    static_assert(std::is_trivially_copyable_v<T>);
    if (data == nullptr || len < sizeof to)
        return false;
    std::memcpy(&to, data, sizeof to);
    return to.magic == greeting_magic;
}

struct address {
    std::string host;
    std::string port;
};

// How a server accepts a connection of a point.
template<class Region>
struct acceptance {
    queue_sizes sizes;
    const Region *data;
    const Region *messages;      // or NULL
    std::size_t receives, slot;  // how many to post before the connection stands, of what size
    std::size_t messages_of_one; // bytes of messages that belong to each connection
    bool direct_write;           // what the server claims of its platform
    std::uint32_t connections;   // numbers from this one on are refused
};

template<class Connection>
struct accepted {
    std::unique_ptr<Connection> connection;
    std::uint32_t number;
};

// The direction in which a device is looked for.
enum class end {
    client,
    server
};

constexpr int handshake_timeout_ms = 10'000;

} // namespace bench
