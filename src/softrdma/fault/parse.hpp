// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "fault/rules.hpp"

#include <vector>

namespace softrdma::fault
{

struct rule {
    verdict result{};
    unsigned operations = ~0u; // bits of the opcodes it applies to
    std::uint32_t qpn = 0;     // 0: of every queue pair
    std::uint64_t nth = 0;     // only the nth that matches; 0: each
    std::uint64_t every = 0;   // each nth that matches; 0: each
    std::uint64_t count = 0;   // how often at most; 0: no limit
    double probability = 1;

    std::uint64_t seen = 0;
    std::uint64_t fired = 0;
};

struct parsed {
    std::vector<rule> rules;
    std::optional<std::uint64_t> seed;
};

// Nothing, and why, for a text without sense.
std::optional<parsed> parse(std::string_view text, std::string &why);

} // namespace softrdma::fault
