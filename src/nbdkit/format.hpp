// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "disk.hpp"

namespace nbdkit_mirror
{

struct disk::superblock {
    char magic[8];
    std::uint32_t version;
    std::uint32_t block_size;
    std::uint64_t blocks;
    std::uint64_t logical;
    std::uint64_t hash;  // hash of the members above
    std::uint64_t clean; // 1 if no block can be torn
};

// Describes the content of a block. A header is valid if its hash matches the other members and the data. The newest
// valid header of a logical block is used. The device writes 8-byte words atomically.
struct disk::header {
    std::uint64_t sequence; // number of the write; a header with 0 was never used
    std::uint64_t logical;  // block of the disk; hole_bit marks zeros without data
    std::uint64_t hash;

    static constexpr std::uint64_t hole_bit = std::uint64_t{1} << 63;
};

inline constexpr char magic[8] = {'R', 'P', 'M', 'A', 'D', 'I', 'S', 'K'};

} // namespace nbdkit_mirror
