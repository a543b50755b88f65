// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "fault/rules.hpp"

#include <vector>

namespace softrdma::fault
{

struct rule {
    verdict result{};
    unsigned operations = ~0u; // bits of the opcodes it applies to
    std::uint32_t qpn = 0;     // 0 for all queue pairs
    std::uint64_t nth = 0;     // fires only for the nth match; 0 for each
    std::uint64_t every = 0;   // fires for each nth match; 0 for each
    std::uint64_t count = 0;   // maximum number of injections; 0 for no limit
    double probability = 1;

    std::uint64_t matches = 0;
    std::uint64_t fired = 0;
};

struct parsed {
    std::vector<rule> rules;
    std::optional<std::uint64_t> seed;
};

std::optional<parsed> parse(std::string_view text, std::string &reason);

} // namespace softrdma::fault
