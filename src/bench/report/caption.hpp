// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "figure.hpp"

#include <string>

// Sentences that say what a chart shows, made from what is in it.
namespace bench::report
{

std::string caption_of(const line_chart &chart, bool lower_is_better);
std::string caption_of(const ratio_chart &chart);
std::string caption_of(const bar_chart &chart);

// 1.02 and 0.98 are "equal within 3 %": smaller differences than this are noise on most machines.
inline constexpr double noise = 0.03;

// "12 % more", "2.1 times", "the same within 3 %".
std::string compared(double ratio, const std::string &more, const std::string &less);

} // namespace bench::report
