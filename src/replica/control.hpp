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

// The messages that librpmem and rpmemd exchange over the standard input and output of the daemon; docs/replica.md
// describes them byte by byte. Pure functions: what is decoded never points into the bytes it came from.
namespace replica
{

inline constexpr std::uint16_t protocol_major = 1;
inline constexpr std::uint16_t protocol_minor = 0;
// Of a message; who announces more is cut off.
inline constexpr std::size_t longest_message = 64 * 1024;
// What is encoded here is never longer.
inline constexpr std::size_t longest_encoded = 1024;
// The beginning of each message, which tells how long it is.
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
    std::array<std::byte, longest_encoded> bytes_;
    std::size_t size_ = 0;
};

// Optional parts of the protocol. Both sides say what they know; what both know is used.
enum feature : std::uint64_t {
    feature_keep_alive = 1U << 0,
    feature_mirror = 1U << 1, // the daemon takes the requests about mirrored sets, and no others
    // In the answer that describes a region only: the device of the target flushes it natively, as far as its medium
    // allows.
    feature_native_flush = 1U << 2,
    feature_record = 1U << 3, // mirror_status and mirror_commit of pools that several targets have
};

// What the daemon writes before anything else.
struct greeting {
    std::uint16_t major = protocol_major;
    std::uint16_t minor = protocol_minor;
    std::uint64_t features = feature_keep_alive;
    // 0: the daemon waits for requests. Otherwise it does not, and ends.
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

// Which kinds of device the client accepts for the data path, as bits.
enum device_kind : std::uint32_t {
    device_hardware = 1U << 0,
    device_software = 1U << 1,
};

// To create or open a pool.
struct session_request {
    std::uint64_t features = feature_keep_alive;
    std::uint64_t pool_size = 0;
    std::uint32_t lanes = 0;
    std::uint32_t devices = 0;
    // The client lets something be heard at least so often; 0: it does not promise anything.
    std::uint32_t keep_alive_ms = 0;
    // For create only. Attributes that are all zero mean that the pool gets no header.
    pool_attributes attributes;
    short_text<longest_set_name> set_name;
};

// About a mirrored set. What a request does not need is zero.
struct mirror_request {
    set_uuid set{};
    std::uint32_t copy = 0;    // create
    std::uint64_t length = 0;  // create, hash
    std::uint64_t offset = 0;  // hash, cursor
    mirror_promise promise;    // prepare, attach, hash, cursor
    mirror_record record;      // commit
    std::uint32_t lanes = 0;   // attach
    std::uint32_t devices = 0; // attach
    short_text<longest_set_name> set_name;
};

// Of consecutive segments of a copy, see segments.hpp.
using segment_hash = std::array<std::byte, 16>;
inline constexpr std::uint32_t most_hashes = 48;
struct segment_hashes {
    std::uint32_t count = 0;
    std::array<segment_hash, most_hashes> hashes;
};

// With what a client shows that it has the key of the daemon, and how it does.
using mirror_key = token;
siphash_result prove_key(const mirror_key &key, const siphash_result &challenge);

struct request {
    request_type type = request_type::keep_alive;
    std::uint16_t minor = protocol_minor;
    // Answers repeat it.
    std::uint32_t number = 0;
    session_request session;    // create, open
    pool_attributes attributes; // set_attributes
    bool remove = false;        // close: the pool that this session created goes, too
    siphash_result proof{};     // mirror_prove
    mirror_request mirror;      // the other requests about mirrored sets
};

// Why bytes are no message.
enum class decoded {
    good,
    malformed,
    other_version, // of another major version of the protocol
};

enum class method : std::uint32_t {
    messages = 1,         // the target flushes what a message names, and answers
    persistent_flush = 2, // rpma_flush() to persistence
    visibility_flush = 3, // rpma_flush() to visibility: the level is VOLATILE, and nothing remains to be done for it
};

// Where data is when an operation has succeeded. No target answers the last one: it takes both devices, and the client
// knows its own.
enum class level : std::uint32_t {
    volatile_memory = 0,
    page_cache_sync = 1,
    cpu_flushed = 2,
    direct_write = 3,
    native_flush = 4,
};

inline constexpr std::uint32_t max_lanes = 1024;
inline constexpr std::uint32_t most_window = 1024;

// A memory region or a peer configuration as librpma describes it.
using descriptor = short_text<64>;

// The answer to create and open.
struct session_answer {
    std::uint64_t features = 0;
    // Usable, the header included.
    std::uint64_t pool_size = 0;
    bool has_header = false;
    replica::method method = replica::method::messages;
    replica::level level = replica::level::volatile_memory;
    std::uint32_t lanes = 0;
    // Requests that a lane may have under way.
    std::uint32_t window = 1;
    std::uint32_t port = 0;
    // The kind of device the daemon listens on; the client has to use the same.
    std::uint32_t devices = device_software;
    // Numeric.
    short_text<63> address;
    replica::token token{};
    descriptor peer;
    // [4096, size) of a pool with a header, everything of one without.
    descriptor data_region;
    // Read-only, [0, 4096); empty for a pool without header.
    descriptor header_region;
    // Of the pool; all zero for one without header.
    pool_attributes attributes;
};

struct answer {
    request_type type = request_type::keep_alive;
    std::uint16_t minor = protocol_minor;
    std::uint32_t number = 0;
    replica::status status = status::success;
    error_text text;            // not for success
    session_answer session;     // create, open, mirror_attach
    siphash_result challenge{}; // mirror_challenge
    mirror_state mirror;        // mirror_create, _status, _prepare, _commit, _cursor
    segment_hashes hashes;      // mirror_hash
};

encoded_message encode(const greeting &g);
encoded_message encode(const request &r);
encoded_message encode(const answer &a);

// The length of a message whose header has arrived, or 0 if it is not acceptable.
std::size_t request_size(std::span<const std::byte, request_header_size> header);
std::size_t answer_size(std::span<const std::byte, answer_header_size> header);
std::size_t greeting_size(std::span<const std::byte, greeting_header_size> header);

// Each takes one whole message. Bytes that a later minor version appended are ignored.
decoded decode(std::span<const std::byte> bytes, greeting &to);
decoded decode(std::span<const std::byte> bytes, request &to);
decoded decode(std::span<const std::byte> bytes, answer &to);

} // namespace replica
