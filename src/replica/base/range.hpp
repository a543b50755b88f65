// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace replica
{

// Range in bytes. The offset is relative to the start of the pool, including its header.
struct range {
    std::uint64_t offset = 0;
    std::uint64_t length = 0;
};

inline constexpr std::uint64_t header_size = 4096;
inline constexpr std::uint64_t page_size = 4096;

// Returns whether the range lies within [begin, end). Safe against overflow.
constexpr bool range_fits(range r, std::uint64_t begin, std::uint64_t end)
{
    return r.offset >= begin && r.offset <= end && r.length <= end - r.offset;
}

} // namespace replica
