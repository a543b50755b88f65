// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace mirror_tool
{

struct options {
    std::string command;
    std::string set_file;
    bool json = false;
    bool prometheus = false;
    bool force = false;
    std::string progress = "auto"; // or "on" or "off"
    std::uint64_t rate = 0;        // bytes per second, unlimited if 0
    std::optional<unsigned> copy;
    std::string location;
    std::string pool_set;
    std::string file; // output of read
    std::uint64_t length = 0;
    bool any_time = false;
    unsigned timeout_s = 60;
};

// Parses the command line. Returns nullopt if help or the version was printed. Throws failure with exit_usage.
std::optional<options> parse(int argc, const char *const *argv);

} // namespace mirror_tool
