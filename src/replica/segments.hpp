// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "control.hpp"

// Copies of a mirrored set are compared segment by segment: two segments of the same hash are taken for equal.
namespace replica
{

inline constexpr std::uint64_t segment_size = 64 * 1024;

inline segment_hash hash_segment(std::span<const std::byte> bytes)
{
    const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
    XXH128_canonical_t canonical;
    XXH128_canonicalFromHash(&canonical, hash);
    segment_hash result;
    static_assert(sizeof(canonical.digest) == sizeof(result));
    std::memcpy(result.data(), canonical.digest, sizeof(result));
    return result;
}

// Of the segments that begin in the bytes, at most most_hashes; the last one may be short.
inline void hash_segments(std::span<const std::byte> bytes, segment_hashes &to)
{
    for (to.count = 0; !bytes.empty() && to.count < most_hashes; ++to.count) {
        const std::size_t length = std::min<std::size_t>(bytes.size(), segment_size);
        to.hashes[to.count] = hash_segment(bytes.first(length));
        bytes = bytes.subspan(length);
    }
}

} // namespace replica
