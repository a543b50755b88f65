// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "range.hpp"

// The messages of a lane: what the client has written is made durable by the target, which answers. Numbers are
// little-endian; encoding and decoding work in the registered memory itself.
namespace replica
{

enum class lane_request_kind : std::uint32_t {
    flush = 1,
    deep_flush = 2,
};

inline constexpr std::size_t most_ranges = 62;
inline constexpr std::size_t lane_request_header_size = 16;
inline constexpr std::size_t longest_lane_request = lane_request_header_size + 16 * most_ranges;
inline constexpr std::size_t lane_answer_size = 16;

struct lane_request {
    lane_request_kind kind = lane_request_kind::flush;
    std::uint32_t count = 0;
    // Of the lane, counts from 1. Answers repeat it, and come in order.
    std::uint64_t sequence = 0;
    range ranges[most_ranges];
};

struct lane_answer {
    lane_request_kind kind = lane_request_kind::flush;
    // 0: the ranges are durable. Otherwise the errno with which the target failed: they may be durable or not.
    int error = 0;
    std::uint64_t sequence = 0;
};

// Returns the length. The buffer holds longest_lane_request, or lane_answer_size.
std::size_t encode(const lane_request &r, std::byte *to);
std::size_t encode(const lane_answer &a, std::byte *to);

// False: malformed. Whether the ranges lie within the pool is for the caller to check, with range_fits().
bool decode(std::span<const std::byte> bytes, lane_request &to);
bool decode(std::span<const std::byte> bytes, lane_answer &to);

} // namespace replica
