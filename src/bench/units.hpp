// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

// Numbers for people: three significant digits and a unit that keeps them short.
namespace bench
{

enum class unit {
    none,
    time_ns,
    bytes,
    bytes_per_s,
    per_s,
    percent,
    ratio
};

// "4 KiB", "12.3 µs", "1.25 GB/s", "812 k/s", "1.02".
std::string format(double value, unit u);
// "1.02 (0.98 to 1.05)".
std::string interval(double ratio, double low, double high);
// Without three digits where the value is whole: for the ticks of an axis.
std::string format_tick(double value, unit u);
// "1 min 32 s".
std::string format_duration(double seconds);
// "1,234 points"; one is singular.
std::string format_count(std::size_t count, const std::string &noun);

} // namespace bench
