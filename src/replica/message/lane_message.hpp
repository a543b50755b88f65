// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/range.hpp"

// Messages of a lane: the client requests that ranges it has written be made durable, and the target responds. Numbers
// are little-endian. Messages are encoded and decoded in place in registered memory.
namespace replica
{

enum class lane_request_kind : std::uint32_t {
    flush = 1,
    deep_flush = 2,
};

inline constexpr std::size_t max_ranges = 62;
inline constexpr std::size_t lane_request_header_size = 16;
inline constexpr std::size_t max_lane_request_size = lane_request_header_size + 16 * max_ranges;
inline constexpr std::size_t lane_response_size = 16;

struct lane_request {
    lane_request_kind kind = lane_request_kind::flush;
    std::uint32_t count = 0;
    // Sequence number of the request on its lane, starting at 1. Responses repeat it and arrive in order.
    std::uint64_t sequence = 0;
    range ranges[max_ranges];
};

struct lane_response {
    lane_request_kind kind = lane_request_kind::flush;
    // 0 if the ranges are durable, otherwise the errno value of the target: durability is unknown.
    int error = 0;
    std::uint64_t sequence = 0;
};

// Encode a message and return its length. The buffer must have max_lane_request_size or lane_response_size bytes.
std::size_t encode(const lane_request &r, std::byte *to);
std::size_t encode(const lane_response &a, std::byte *to);

// Return false for a malformed message. The caller must check the ranges with range_fits().
bool decode(std::span<const std::byte> bytes, lane_request &to);
bool decode(std::span<const std::byte> bytes, lane_response &to);

} // namespace replica
