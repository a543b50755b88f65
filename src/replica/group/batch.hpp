// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <algorithm>
#include <bit>
#include <optional>
#include <string_view>

#include "base/range.hpp"
#include "region/segments.hpp"

// Batches of segments, in which copies are compared by hash.
namespace group
{

inline constexpr std::uint64_t max_batch_size = replica::max_hashes * replica::segment_size;

// Returns the segments of a batch whose hashes differ, as bits, or nothing unless both copies have the same number.
inline std::optional<std::uint64_t> different_segments(std::string_view a, std::string_view b)
{
    static_assert(replica::max_hashes <= 64);
    constexpr std::size_t hash_size = sizeof(replica::segment_hash);
    if (a.size() != b.size())
        return std::nullopt;
    std::uint64_t bits = 0;
    for (std::size_t i = 0; i < a.size() / hash_size; ++i)
        if (a.substr(i * hash_size, hash_size) != b.substr(i * hash_size, hash_size))
            bits |= std::uint64_t{1} << i;
    return bits;
}

// Calls f for each run of segments in the bit mask until it returns a value other than 0. Returns the value.
template<class F>
int each_run(std::uint64_t bits, replica::range batch, F &&f)
{
    int error = 0;
    while (bits != 0 && error == 0) {
        const auto first = static_cast<std::uint64_t>(std::countr_zero(bits));
        const auto count = static_cast<std::uint64_t>(std::countr_one(bits >> first));
        const std::uint64_t begin = first * replica::segment_size;
        error = f(replica::range{batch.offset + begin, std::min(count * replica::segment_size, batch.length - begin)});
        bits &= bits + (std::uint64_t{1} << first); // clears the lowest run of ones
    }
    return error;
}

} // namespace group
