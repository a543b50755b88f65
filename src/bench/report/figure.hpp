// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "entry.hpp"
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
    std::string ours, other; // medians of either side; their quotient need not be the median of the ratios
    std::string words;       // "better", "no difference" ...
    std::string style;       // the class of its mark in the style sheet: "better", "worse" or "even"
};

struct ratio_chart {
    std::string ours, other; // the sides
    std::vector<ratio_row> rows;
};

struct figure {
    std::string group; // the key of its section
    std::string title;
    std::string subtitle; // what all of it has in common
    std::string caption;  // how to read it, in a line
    std::variant<line_chart, bar_chart, ratio_chart> chart;
};

// Curves over block size, depth, connections, threads, load or percentile, wherever there is a curve to draw.
std::vector<figure> line_figures(std::span<const entry> entries);

// The paired runs of a comparison, and librpma beside raw verbs.
std::vector<figure> ratio_figures(std::span<const run> runs, std::span<const entry> entries);

// The same work over each interface.
std::vector<figure> bar_figures(std::span<const entry> entries);

// All that is measured between ours and raw verbs, or the other library, as one ratio with its interval; empty label
// when there is nothing.
ratio_row overall_ratio(std::span<const run> runs, std::span<const entry> entries);

} // namespace bench::report
