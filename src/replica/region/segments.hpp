// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "message/control.hpp"

// Comparison of copies of a mirrored set by segments. Segments with the same hash are treated as equal.
namespace replica
{

inline constexpr std::uint64_t segment_size = 64 * 1024;

segment_hash hash_segment(std::span<const std::byte> bytes);

// Computes the hashes of the segments, at most max_hashes, one after the other. The last segment may be shorter.
std::string hash_segments(std::span<const std::byte> bytes);

} // namespace replica
