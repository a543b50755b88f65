// SPDX-License-Identifier: BSD-3-Clause
#include "region/segments.hpp"

#include <algorithm>

#include "region/canonical_hash.hpp"

namespace replica
{

namespace
{

#ifdef RPMA_HASHES_WITH_AVX2
const auto canonical_hash = __builtin_cpu_supports("avx2") ? canonical_hash_avx2 : canonical_hash_plain;
#else
constexpr auto canonical_hash = canonical_hash_plain;
#endif

} // namespace

segment_hash hash_segment(std::span<const std::byte> bytes)
{
    segment_hash result;
    static_assert(sizeof(result) == canonical_hash_size);
    canonical_hash(bytes.data(), bytes.size(), result.data());
    return result;
}

std::string hash_segments(std::span<const std::byte> bytes)
{
    std::string hashes;
    for (std::uint32_t count = 0; !bytes.empty() && count < max_hashes; ++count) {
        const std::size_t length = std::min<std::size_t>(bytes.size(), segment_size);
        hashes += bytes_of(hash_segment(bytes.first(length)));
        bytes = bytes.subspan(length);
    }
    return hashes;
}

} // namespace replica
