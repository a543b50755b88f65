// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "attributes.hpp"
#include "mirror_state.hpp"
#include "set_name.hpp"
#include "short_text.hpp"
#include "siphash.hpp"
#include "status.hpp"

// Messages that librpmem and rpmemd exchange over standard input and output of the daemon. docs/replication.md
// specifies the format. Pure functions: a decoded message never points into the input.
namespace replica
{

inline constexpr std::uint16_t protocol_major = 1;
inline constexpr std::uint16_t protocol_minor = 0;
// Maximum size of a message, in bytes. A peer that announces a larger message is disconnected.
inline constexpr std::size_t max_message_size = 64 * 1024;
// Maximum size of an encoded message, in bytes.
inline constexpr std::size_t max_encoded_size = 1024;
// Sizes of the message headers, which contain the size of the message.
inline constexpr std::size_t request_header_size = 20;
inline constexpr std::size_t answer_header_size = 24;
inline constexpr std::size_t greeting_header_size = 26;

using error_text = short_text<255>;
using token = std::array<std::byte, 32>;

class encoded_message
{
public:
    std::byte *begin() { return bytes_.data(); }
    void set_size(std::size_t size) { size_ = size; }
    std::span<const std::byte> bytes() const { return {bytes_.data(), size_}; }

private:
    std::array<std::byte, max_encoded_size> bytes_;
    std::size_t size_ = 0;
};

// Optional features of the protocol. Both sides send the features that they support, and use the common ones.
enum feature : std::uint64_t {
    feature_keep_alive = 1U << 0,
    feature_mirror = 1U << 1, // the daemon serves only requests for mirrored sets
    // Only in the response that describes a region: the device of the target flushes natively, as far as its medium
    // allows.
    feature_native_flush = 1U << 2,
    feature_record = 1U << 3, // mirror_status and mirror_commit for pools with several targets
};

// First message of the daemon.
struct greeting {
    std::uint16_t major = protocol_major;
    std::uint16_t minor = protocol_minor;
    std::uint64_t features = feature_keep_alive;
    // Errno value, or 0 if the daemon waits for requests. After an error the daemon exits.
    int error = 0;
    error_text text;
};

enum class request_type : std::uint32_t {
    create = 1,
    open = 3,
    close = 5,
    set_attributes = 7,
    keep_alive = 9,
    mirror_challenge = 11,
    mirror_prove = 13,
    mirror_create = 15,
    mirror_status = 17,
    mirror_prepare = 19,
    mirror_commit = 21,
    mirror_attach = 23,
    mirror_hash = 25,
    mirror_cursor = 27,
};
inline constexpr std::uint32_t highest_request = 27;

// Kinds of device that the client accepts for the data path, as a bit mask.
enum device_kind : std::uint32_t {
    device_hardware = 1U << 0,
    device_software = 1U << 1,
};

// Request to create or open a pool.
struct session_request {
    std::uint64_t features = feature_keep_alive;
    std::uint64_t pool_size = 0;
    std::uint32_t lanes = 0;
    std::uint32_t devices = 0;
    // Maximum interval between messages of the client, in milliseconds. 0 if the client sends no keep-alive messages.
    std::uint32_t keep_alive_ms = 0;
    // Only for create. All-zero attributes create a pool without header.
    pool_attributes attributes;
    short_text<max_set_name_len> set_name;
};

// Parameters of a request for a mirrored set. Parameters that a request does not need are zero.
struct mirror_request {
    set_uuid set{};
    std::uint32_t copy = 0;    // create
    std::uint64_t length = 0;  // create, hash
    std::uint64_t offset = 0;  // hash, cursor; a read_kind in the cursor request of a reader
    mirror_promise promise;    // prepare, attach, hash, cursor; epoch 0 in attach, hash and cursor of a reader
    mirror_record record;      // commit
    std::uint32_t lanes = 0;   // attach
    std::uint32_t devices = 0; // attach
    short_text<max_set_name_len> set_name;
};

// Image that a reader requests.
enum read_kind : std::uint64_t {
    read_point = 0,    // next consistency point, or a set that is closed
    read_any_time = 1, // present content, not consistent
};

// Hashes of consecutive segments of a copy, see segments.hpp.
using segment_hash = std::array<std::byte, 16>;
inline constexpr std::uint32_t max_hashes = 48;
struct segment_hashes {
    std::uint32_t count = 0;
    std::array<segment_hash, max_hashes> hashes;
};

// Key of the daemon. A client proves that it has the key by the response to a challenge.
using mirror_key = token;
siphash_result prove_key(const mirror_key &key, const siphash_result &challenge);

struct request {
    request_type type = request_type::keep_alive;
    std::uint16_t minor = protocol_minor;
    // Number of the request, which the response repeats.
    std::uint32_t number = 0;
    session_request session;    // create, open
    pool_attributes attributes; // set_attributes
    bool remove = false;        // close: remove the pool that this session created
    siphash_result proof{};     // mirror_prove
    mirror_request mirror;      // the other requests for mirrored sets
};

// Result of decoding a message.
enum class decoded {
    good,
    malformed,
    other_version, // uses another major version of the protocol
};

enum class method : std::uint32_t {
    messages = 1,         // the target flushes the ranges of a request, and responds
    persistent_flush = 2, // rpma_flush() to persistence
    visibility_flush = 3, // rpma_flush() to visibility, for volatile memory
};

// Persistence level that a completed operation has reached. A target never reports the last one: it requires native
// flush on both devices, and only the client knows its own.
enum class level : std::uint32_t {
    volatile_memory = 0,
    page_cache_sync = 1,
    cpu_flushed = 2,
    direct_write = 3,
    native_flush = 4,
};

inline constexpr std::uint32_t max_lanes = 1024;
inline constexpr std::uint32_t max_window = 1024;

// Descriptor of a memory region or a peer configuration in the format of librpma.
using descriptor = short_text<64>;

// Response to create, open and mirror_attach.
struct session_answer {
    std::uint64_t features = 0;
    // Usable size in bytes, including the header.
    std::uint64_t pool_size = 0;
    bool has_header = false;
    replica::method method = replica::method::messages;
    replica::level level = replica::level::volatile_memory;
    std::uint32_t lanes = 0;
    // Maximum number of outstanding requests of a lane.
    std::uint32_t window = 1;
    std::uint32_t port = 0;
    // Kind of device that the daemon listens on. The client must use the same kind.
    std::uint32_t devices = device_software;
    // Numeric IP address.
    short_text<63> address;
    replica::token token{};
    descriptor peer;
    // Region of the range [4096, size) of a pool with a header, otherwise of the whole pool.
    descriptor data_region;
    // Region of the range [0, 4096), usually read-only. Empty for a pool without header.
    descriptor header_region;
    // Attributes of the pool, all zero for a pool without header.
    pool_attributes attributes;
};

struct answer {
    request_type type = request_type::keep_alive;
    std::uint16_t minor = protocol_minor;
    std::uint32_t number = 0;
    replica::status status = status::success;
    error_text text;            // unless status is success
    session_answer session;     // create, open, mirror_attach
    siphash_result challenge{}; // mirror_challenge
    mirror_state mirror;        // mirror_create, _status, _prepare, _commit, _cursor
    segment_hashes hashes;      // mirror_hash
};

encoded_message encode(const greeting &g);
encoded_message encode(const request &r);
encoded_message encode(const answer &a);

// Return the size of a message, from its header, or 0 if the size is invalid.
std::size_t request_size(std::span<const std::byte, request_header_size> header);
std::size_t answer_size(std::span<const std::byte, answer_header_size> header);
std::size_t greeting_size(std::span<const std::byte, greeting_header_size> header);

// Decode one whole message. Bytes that a later minor version appended are ignored.
decoded decode(std::span<const std::byte> bytes, greeting &to);
decoded decode(std::span<const std::byte> bytes, request &to);
decoded decode(std::span<const std::byte> bytes, answer &to);

} // namespace replica
