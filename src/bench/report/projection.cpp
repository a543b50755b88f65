// SPDX-License-Identifier: BSD-3-Clause
#include "projection.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace bench::report
{

namespace
{

constexpr double character_width = 6.4; // of the labels of ticks, generous

// 1, 2, 5, 10, 20 ...: the largest that is not above value.
double round_down(double value)
{
    const double decade = std::pow(10, std::floor(std::log10(value)));
    for (const double digit : {5.0, 2.0}) {
        if (digit * decade <= value * (1 + 1e-9))
            return digit * decade;
    }
    return decade;
}

double round_up(double value)
{
    const double down = round_down(value);
    if (down >= value * (1 - 1e-9))
        return down;
    const double digit = down / std::pow(10, std::floor(std::log10(down) + 1e-9));
    return down * (digit > 1.5 && digit < 3 ? 2.5 : 2);
}

// Spans of less than this say more on a scale that starts at zero.
constexpr double narrow = 4;

} // namespace

projection::projection(const axis &a, std::vector<double> values, double from, double to)
    : axis_(a), values_(std::move(values)), from_(from), to_(to), first_(0), last_(1)
{
    std::erase_if(values_, [&](double value) { return !shows(value); });
    std::ranges::sort(values_);
    const auto [first, last] = std::ranges::unique(values_);
    values_.erase(first, last);
    if (values_.empty())
        return;

    double low = values_.front(), high = values_.back();
    if (axis_.how == scale::log10 && high < low * narrow)
        axis_.how = scale::linear;
    if (axis_.how == scale::log10) {
        low = round_down(low);
        high = round_up(high);
    } else if (axis_.how == scale::linear) {
        low = 0;
        if (axis_.measured_in != unit::percent && high > 0)
            high = round_up(high * 1.02);
    } else if (axis_.how == scale::nines) {
        low = 0;
    }
    first_ = place(low);
    last_ = place(high);
    if (first_ == last_) {
        first_ -= 0.5;
        last_ += 0.5;
    }
}

bool projection::shows(double value) const
{
    if (axis_.how == scale::log2 || axis_.how == scale::log10)
        return value > 0;
    return axis_.how != scale::nines || value < 100;
}

double projection::place(double value) const
{
    switch (axis_.how) {
    case scale::log2:
        return std::log2(value);
    case scale::log10:
        return std::log10(value);
    case scale::nines:
        return -std::log10(1 - value / 100);
    case scale::linear:
        break;
    }
    return value;
}

double projection::operator()(double value) const
{
    return from_ + (to_ - from_) * (place(value) - first_) / (last_ - first_);
}

std::vector<double> projection::round_values() const
{
    std::vector<double> marks;
    if (axis_.how == scale::nines) {
        marks = {0, 50, 90, 99, 99.9, 99.99, 99.999, 99.9999};
        std::erase_if(marks, [&](double mark) { return place(mark) > last_ * (1 + 1e-9); });
    } else if (axis_.how == scale::log10) {
        const bool decades_only = last_ - first_ > 3;
        for (double mark = std::pow(10, first_); std::log10(mark) <= last_ + 1e-9; mark = round_up(mark * 1.01)) {
            if (!decades_only || std::abs(std::log10(mark) - std::round(std::log10(mark))) < 1e-9)
                marks.push_back(mark);
        }
    } else if (axis_.how == scale::linear && last_ > 0) {
        double step = round_down(last_ / 4);
        if (axis_.measured_in == unit::bytes)
            step = std::exp2(std::floor(std::log2(last_ / 4)));
        for (double mark = 0; mark <= last_ * (1 + 1e-9); mark += step)
            marks.push_back(mark);
    }
    return marks;
}

std::vector<tick> projection::ticks_along() const
{
    std::vector<tick> ticks;
    for (const double value : round_values())
        ticks.push_back({(*this)(value), format_tick(value, axis_.measured_in)});
    return ticks;
}

std::vector<tick> projection::ticks_across() const
{
    std::vector<tick> ticks;
    double free_from = -1e9;
    const bool measured = axis_.how == scale::log2 || axis_.how == scale::linear;
    for (const double value : measured ? values_ : round_values()) {
        const std::string label =
                axis_.how == scale::nines ? fmt::format("{:.7g} %", value) : format_tick(value, axis_.measured_in);
        const double at = (*this)(value), half = character_width * static_cast<double>(label.size()) / 2;
        // What cannot be labelled keeps its tick.
        const bool fits = at - half >= free_from;
        ticks.push_back({at, fits ? label : ""});
        if (fits)
            free_from = at + half + character_width;
    }
    return ticks;
}

} // namespace bench::report
