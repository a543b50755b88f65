// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/short_text.hpp"
#include "message/attributes.hpp"
#include "message/control.pb.h"
#include "message/set_name.hpp"
#include "message/status.hpp"
#include "record/mirror_state.hpp"

// Messages of the control channel: frames, checks and conversion. control.proto specifies their content.
namespace replica
{

using wire::greeting;
using wire::request;
using wire::response;

inline constexpr std::uint16_t protocol_major = 2;
// Maximum size of a message, in bytes. A peer that announces a larger message is disconnected.
inline constexpr std::size_t max_message_size = 64 * 1024;
// A frame is the size of the message, 4 bytes in big-endian order, and the message.
inline constexpr std::size_t frame_header_size = 4;
// The preamble precedes the greeting. It is a whole greeting of protocol 1 that announces another version.
inline constexpr std::size_t preamble_size = 26;

using error_text = short_text<255>;
using token = std::array<std::byte, 32>;

// Optional features of the protocol. Both sides send the features that they support, and use the common ones.
enum feature : std::uint64_t {
    feature_keep_alive = 1U << 0,
    feature_mirror = 1U << 1, // the daemon serves only requests for mirrored sets
    // Only in the description of a region: the target's device flushes natively, up to the level of its medium.
    feature_native_flush = 1U << 2,
    feature_record = 1U << 3, // records of pools with several targets
    feature_group = 1U << 4,  // promises and hashes of pools with several targets
};

enum device_kind : std::uint32_t {
    device_hardware = 1U << 0,
    device_software = 1U << 1,
};

// Returns the kinds of local device that a client tries, in this order: the target's kind, then the other one. An entry
// is 0 if the kind is not allowed. Devices of both kinds can be connected, because softrdma supports RoCE.
constexpr std::array<std::uint32_t, 2> kinds_to_try(std::uint32_t allowed, std::uint32_t target_kind)
{
    return {allowed & target_kind, allowed & ~target_kind};
}

enum class method : std::uint32_t {
    messages = 1, // the target flushes the ranges of a request, and responds
    persistent_flush = 2,
    visibility_flush = 3, // rpma_flush() to visibility, for volatile memory
};

// Persistence level of a completed operation. Only the client detects the last one: its device needs native flush, too.
enum class level : std::uint32_t {
    volatile_memory = 0,
    page_cache_sync = 1,
    cpu_flushed = 2,
    direct_write = 3,
    native_flush = 4,
};

inline constexpr std::uint32_t max_lanes = 1024;
inline constexpr std::uint32_t max_window = 1024;
inline constexpr std::size_t max_descriptor_size = 64;

using segment_hash = std::array<std::byte, 16>;
inline constexpr std::uint32_t max_hashes = 48;

enum class decoded {
    good,
    malformed,
    other_version,
};

// Return a whole frame. The preamble precedes the frame of the greeting.
std::string encode(const google::protobuf::MessageLite &message);
std::string encode(const greeting &message);

// Returns the size of a message, from the header of its frame, or nothing if the size is invalid.
std::optional<std::size_t> message_size(std::span<const std::byte, frame_header_size> header);

decoded check_preamble(std::span<const std::byte> bytes);

// Decode one message without its frame, and check its fields.
decoded decode(std::string_view bytes, greeting &to);
decoded decode(std::string_view bytes, request &to);
decoded decode(std::string_view bytes, response &to);

response response_to(const request &r);

// Returns whether the response belongs to the request and, if successful, has the body that the request requires.
bool answers(const response &r, std::uint32_t number, request::BodyCase kind);

void set_failure(response &r, status failed, std::string_view text);

// Conversion of parts of a message, which decode() has checked.
mirror_promise from_wire(const wire::promise &p);
mirror_record from_wire(const wire::record &r);
mirror_state from_wire(const wire::state &s);
pool_attributes from_wire(const wire::attributes &a);
void to_wire(const mirror_promise &p, wire::promise &to);
void to_wire(const mirror_record &r, wire::record &to);
void to_wire(const mirror_state &s, wire::state &to);
void to_wire(const pool_attributes &a, wire::attributes &to);

// Converts an array of bytes, such as a UUID or a token. A field that is absent becomes zero bytes.
template<class Array>
Array array_of(const std::string &bytes)
{
    Array result{};
    std::copy_n(
            reinterpret_cast<const std::byte *>(bytes.data()), std::min(bytes.size(), result.size()), result.begin());
    return result;
}
template<class Array>
std::string bytes_of(const Array &array)
{
    return {reinterpret_cast<const char *>(array.data()), array.size()};
}

} // namespace replica
