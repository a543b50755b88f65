// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "figure.hpp"

// Values onto a line of pixels, and the ticks that tell them.
namespace bench::report
{

struct tick {
    double at = 0; // pixel
    std::string label;
};

// Logarithms are of positive values only, and the last percentile is infinitely far.
bool can_show(scale how, double value);

class projection
{
public:
    // From pixel `from` to pixel `to`, of the values that will be drawn, all of which the scale can show.
    projection(const axis &a, std::vector<double> values, double from, double to);

    // Of the axis, and that it is logarithmic where it is.
    std::string name() const;
    double operator()(double value) const;
    // Ticks whose labels do not touch when they are set side by side.
    std::vector<tick> ticks_across() const;
    // Ticks for labels set above each other.
    std::vector<tick> ticks_along() const;

private:
    double place(double value) const;
    std::vector<double> round_values() const;
    std::vector<double> logarithmic_marks() const;

    axis axis_;
    std::vector<double> values_; // ascending, distinct
    double from_, to_;
    double first_, last_; // places of the ends
};

} // namespace bench::report
