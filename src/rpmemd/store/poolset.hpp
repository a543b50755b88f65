// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// Parser of set files, which list the parts of a pool.
namespace rpmemd
{

constexpr std::uint64_t page_size = 4096;
constexpr std::uint64_t min_part_size = std::uint64_t{2} << 20;
constexpr std::uint64_t min_pool_size = 8192;

struct part_line {
    std::string path;
    std::uint64_t size = 0; // in bytes, 0 for AUTO: the size of the device
};

struct poolset {
    std::vector<part_line> parts;
    bool single_header = false; // only the first part has a header
    bool no_headers = false;
};

// Throws failure (EINVAL) with the line number, also for more than one replica.
poolset parse_poolset(std::string_view text);

} // namespace rpmemd
