// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

// Content of the data: a function of the run's seed and of the offset. Each side can compute the expected data of the
// other, and detects data of an earlier run or of another offset.
namespace bench
{

inline std::uint64_t pattern_word(std::uint64_t seed, std::size_t word)
{
    std::uint64_t x = seed + 0x9e3779b97f4a7c15U * (word + 1);
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9U;
    x = (x ^ x >> 27) * 0x94d049bb133111ebU;
    return x ^ x >> 31;
}

// Fills len bytes at to with the content of offset, a multiple of 8.
inline void fill_pattern(std::byte *to, std::uint64_t seed, std::size_t offset, std::size_t len)
{
    for (std::size_t done = 0; done < len; done += 8) {
        const std::uint64_t word = pattern_word(seed, (offset + done) / 8);
        std::memcpy(to + done, &word, len - done < 8 ? len - done : 8);
    }
}

inline bool has_pattern(const std::byte *at, std::uint64_t seed, std::size_t offset, std::size_t len)
{
    for (std::size_t done = 0; done < len; done += 8) {
        const std::uint64_t word = pattern_word(seed, (offset + done) / 8);
        if (std::memcmp(at + done, &word, len - done < 8 ? len - done : 8) != 0)
            return false;
    }
    return true;
}

} // namespace bench
