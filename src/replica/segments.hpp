// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "control.hpp"

// Copies of a mirrored set are compared segment by segment: two segments of the same hash are taken for equal.
namespace replica
{

inline constexpr std::uint64_t segment_size = 64 * 1024;

segment_hash hash_segment(std::span<const std::byte> bytes);

// Of the segments that begin in the bytes, at most most_hashes; the last one may be short.
void hash_segments(std::span<const std::byte> bytes, segment_hashes &to);

} // namespace replica
