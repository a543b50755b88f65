// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "units.hpp"

#include <string>
#include <variant>
#include <vector>

// What is drawn, before any drawing.
namespace bench::report
{

enum class scale {
    linear,
    log2,
    log10,
    nines // percentiles, each further nine as wide as the last
};

struct axis {
    std::string label;
    unit measured_in = unit::none;
    scale how = scale::linear;
    std::string noun; // of what is counted, in the singular
};

// The percentiles people speak of.
inline constexpr double named_ranks[] = {50, 90, 99, 99.9, 99.99, 99.999};

struct datum {
    double x = 0, y = 0;
    double low = 0, high = 0; // the spread of the repeats
};

struct series {
    std::string label;
    std::size_t colour = 0;     // index into the palette, which repeats in another shape
    bool tail = false;          // a companion of the line of the same colour, drawn lighter
    bool smooth = false;        // too dense for markers
    std::vector<datum> data;    // ascending x
    std::vector<double> failed; // x values that were tried and gave nothing
};

struct line_chart {
    axis x, y;
    std::vector<series> lines;
};

struct bar {
    std::string label;
    std::size_t colour = 0;
    double value = 0;
};

struct bar_group {
    std::string label;
    std::vector<bar> bars;
};

struct bar_chart {
    axis values;
    std::vector<bar_group> groups;
};

struct ratio_row {
    std::string label;
    double ratio = 1, low = 1, high = 1;
    bool lower_is_better = true;
    std::string values; // "12.3 µs / 12.2 µs"
};

struct ratio_chart {
    std::string label; // what is divided by what
    std::vector<ratio_row> rows;
};

struct figure {
    std::string group; // the key of its section
    std::string title;
    std::string subtitle; // what all of it has in common
    std::string caption;  // what is seen
    std::variant<line_chart, bar_chart, ratio_chart> chart;
};

} // namespace bench::report
