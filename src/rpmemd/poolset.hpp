// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

// The text of a set file, which says of what files a pool is made.
namespace rpmemd
{

constexpr std::uint64_t page_size = 4096;
constexpr std::uint64_t smallest_part = std::uint64_t{2} << 20;
constexpr std::uint64_t smallest_pool = 8192;

struct part_line {
    std::string path;
    std::uint64_t size = 0; // 0: AUTO, the size of the device
};

struct poolset {
    std::vector<part_line> parts;
    bool single_header = false; // only the first part has a header
    bool no_headers = false;
};

// Throws failure with EINVAL, which names the line, for a text that is no set or is none for a daemon: that has one
// replica.
poolset parse_poolset(std::string_view text);

} // namespace rpmemd
