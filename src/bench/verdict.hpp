// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "results.hpp"

#include <string>

// What a comparison says, and when it says nothing.
namespace bench
{

enum class verdict {
    better,
    worse,
    no_difference
};

// Smaller differences than this are noise on most machines: 1.02 and 0.98 are no difference.
inline constexpr double noise = 0.03;

// Of a ratio and the interval in which it lies. An interval that contains 1 is no difference.
verdict judge(double ratio, double low, double high, bool lower_is_better);
// "better", "worse", "no difference"
const char *to_words(verdict v);

// Whether other work kept the machine busy before the run.
bool was_busy(const host &h);

// Why what was measured allows no comparison with a conclusion, and what to do; empty when it allows one.
std::string why_no_conclusion(const results &r);

// 0 <= q <= 1; values must not be empty.
double quantile(std::vector<double> values, double q);

} // namespace bench
