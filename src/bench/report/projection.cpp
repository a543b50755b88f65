// SPDX-License-Identifier: BSD-3-Clause
#include "projection.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace bench::report
{

namespace
{

constexpr double character_width = 6.2; // of the labels of ticks, generous

double decade_of(double value)
{
    return std::pow(10, std::floor(std::log10(value) + 1e-9));
}

// The largest of 1, 2, 5, 10, 20 ... that is not above value; of 1, 2, 4, 8 ... for bytes.
double round_down(double value, unit u)
{
    if (u == unit::bytes)
        return std::exp2(std::floor(std::log2(value) + 1e-9));
    const double decade = decade_of(value);
    for (const double digit : {5.0, 2.0}) {
        if (digit * decade <= value * (1 + 1e-9))
            return digit * decade;
    }
    return decade;
}

// The next of them.
double next_above(double round, unit u)
{
    if (u == unit::bytes)
        return round * 2;
    const double digit = round / decade_of(round);
    return round * (digit > 1.5 && digit < 3 ? 2.5 : 2);
}

double round_up(double value, unit u)
{
    const double down = round_down(value, u);
    return down >= value * (1 - 1e-9) ? down : next_above(down, u);
}

// Spans of less than this say more on a scale that starts at zero.
constexpr double narrow = 4;

} // namespace

bool can_show(scale how, double value)
{
    return how == scale::nines ? value < 100 : how == scale::linear || value > 0;
}

projection::projection(const axis &a, std::vector<double> values, double from, double to)
    : axis_(a), values_(std::move(values)), from_(from), to_(to), first_(0), last_(1)
{
    std::ranges::sort(values_);
    values_.erase(std::unique(values_.begin(), values_.end()), values_.end());
    if (values_.empty())
        return;

    double low = values_.front(), high = values_.back();
    if (axis_.how == scale::log10 && high < low * narrow)
        axis_.how = scale::linear;
    if (axis_.how == scale::log10) {
        low = round_down(low, axis_.measured_in);
        high = round_up(high, axis_.measured_in);
    } else if (axis_.how == scale::linear) {
        low = 0;
        if (axis_.measured_in != unit::percent && high > 0)
            high = round_up(high * 1.02, axis_.measured_in);
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

std::string projection::name() const
{
    return axis_.label + (axis_.how == scale::linear ? "" : ", log scale");
}

double projection::operator()(double value) const
{
    return from_ + (to_ - from_) * (place(value) - first_) / (last_ - first_);
}

// Not more of them than are easily read.
std::vector<double> projection::logarithmic_marks() const
{
    constexpr std::size_t most = 9;
    std::vector<double> marks;
    for (double mark = std::pow(10, first_); std::log10(mark) <= last_ + 1e-9;
            mark = next_above(mark, axis_.measured_in))
        marks.push_back(mark);
    if (marks.size() <= most)
        return marks;
    if (axis_.measured_in != unit::bytes) {
        std::erase_if(marks, [](double mark) { return std::abs(mark / decade_of(mark) - 1) > 1e-6; });
        return marks;
    }
    std::vector<double> fewer;
    for (std::size_t i = 0; i < marks.size(); i += marks.size() / most + 1)
        fewer.push_back(marks[i]);
    return fewer;
}

std::vector<double> projection::round_values() const
{
    std::vector<double> marks;
    if (axis_.how == scale::nines) {
        marks = {0, 50, 90, 99, 99.9, 99.99, 99.999, 99.9999};
        std::erase_if(marks, [&](double mark) { return place(mark) > last_ * (1 + 1e-9); });
    } else if (axis_.how == scale::log10) {
        marks = logarithmic_marks();
    } else if (axis_.how == scale::linear && last_ > 0) {
        const double step = round_down(last_ / 4, axis_.measured_in);
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
                axis_.how == scale::nines ? fmt::format("{:.7g}", value) : format_tick(value, axis_.measured_in);
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
