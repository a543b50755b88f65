// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "units.hpp"
#include "verdict.hpp"

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

struct datum {
    double x = 0, y = 0;
    double low = 0, high = 0; // the spread of the repeats
};

struct series {
    std::string label;
    std::size_t colour = 0;     // index into the palette, which repeats in another shape
    bool tail = false;          // a companion of the line of the same colour, drawn lighter
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
    std::string ours, other; // medians of either side; their quotient need not be the median of the ratios
    bool judged = true;      // false: the run allows no conclusion
};

// "1.02 (0.98 to 1.05)"
std::string interval(double ratio, double low, double high);
// The class of a mark, and of a card, in the style sheet: "better", "worse", "even".
const char *style_of(verdict v);
// What a table says of the row.
std::string verdict_of(const ratio_row &row);
const char *style_of(const ratio_row &row);

struct ratio_chart {
    std::string ours, other; // the sides
    std::vector<ratio_row> rows;
};

struct figure {
    std::string group; // the key of its section
    std::string title;
    std::string subtitle; // what all of it has in common
    std::string caption;  // how to read it
    std::variant<line_chart, bar_chart, ratio_chart> chart;
};

} // namespace bench::report
