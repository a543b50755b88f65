// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "control/ends.hpp"
#include "plan.hpp"
#include "results.hpp"

namespace bench
{

// One side of a comparison.
struct contestant {
    ends &where;
    bench::api api;
    std::string label; // of the library
};

// The points at which libraries are compared by default.
std::vector<setup> comparison_setups();

// Measures each setup with both, in turns, and adds points and pairs to r; the file at path is complete after each.
// False if a point failed.
bool run_comparison(const contestant &ours, const contestant &other, const std::vector<setup> &setups, const timing &t,
        results &r, const std::string &path);

} // namespace bench
