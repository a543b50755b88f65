// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>

// Types shared by the APIs. The engine is a template over an API, so the timed loop calls it directly.
namespace bench
{

struct queue_sizes {
    std::uint32_t sends, receives;
    std::uint32_t completions() const { return sends + receives; }
};

enum class signal {
    on_error,
    always
};

enum class region_use {
    local_data,  // source and destination of the client's reads and writes
    target_data, // target of the client's reads and writes, flushed to visibility
    target_pmem, // like target_data, also flushed to persistence
    messages
};

// Bit that is set in the wr_id of receives. The other bits are the number of the buffer.
constexpr std::uint64_t receive_mark = std::uint64_t{1} << 32;

constexpr std::uint32_t greeting_magic = 0x31424d52; // "RMB1" in memory

// Private data of a request and, for TCP, the first bytes on the connection.
struct greeting {
    std::uint32_t magic = greeting_magic;
    std::uint32_t connection = 0; // connection number, which determines its slice of the data
};

struct [[gnu::packed]] region_descriptor {
    std::uint64_t address, size;
    std::uint32_t key;
    std::uint8_t usage;
};

struct [[gnu::packed]] connect_response {
    std::uint32_t magic = greeting_magic;
    region_descriptor region{};
    std::uint8_t peer_cfg = 0; // descriptor of a peer configuration
};
static_assert(sizeof(connect_response) == 26);

// Reads private data, which the transport may have padded. Returns false if it is too short or has another magic.
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

template<class Region>
struct acceptance {
    queue_sizes sizes;
    const Region *data;
    const Region *messages;      // may be NULL
    std::size_t receives, slot;  // receives to post before the connection is established, and their size
    std::size_t messages_of_one; // message bytes of each connection
    bool direct_write;           // whether the server declares direct write to PMem
    std::uint32_t connections;   // connection numbers from this one on are rejected
};

template<class Connection>
struct accepted {
    std::unique_ptr<Connection> connection;
    std::uint32_t number;
};

enum class end {
    client,
    server
};

constexpr int handshake_timeout_ms = 10'000;

} // namespace bench
