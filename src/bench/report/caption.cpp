// SPDX-License-Identifier: BSD-3-Clause
#include "caption.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>
#include <optional>

namespace bench::report
{

namespace
{

std::string capital(std::string words)
{
    if (!words.empty() && words.front() >= 'a' && words.front() <= 'z' && !words.starts_with("librpma"))
        words.front() = static_cast<char>(words.front() - 'a' + 'A');
    return words;
}

std::optional<double> value_at(const series &line, double x)
{
    const auto found = std::ranges::find(line.data, x, &datum::x);
    return found == line.data.end() ? std::nullopt : std::optional(found->y);
}

// The x nearest the middle of the axis at which most lines have a value.
double shared_x(const line_chart &chart)
{
    const series &first = chart.lines.front();
    double best = first.data.at(first.data.size() / 2).x;
    std::ptrdiff_t most = 0;
    for (const datum &d : first.data) {
        const auto count = std::ranges::count_if(
                chart.lines, [&](const series &line) { return !line.tail && value_at(line, d.x).has_value(); });
        const bool middle = d.x == first.data.at(first.data.size() / 2).x;
        if (count > most || (count == most && middle)) {
            most = count;
            best = d.x;
        }
    }
    return best;
}

std::string at(const axis &x, double value)
{
    const bool counted = x.measured_in == unit::none && x.how != scale::nines;
    return counted ? format(value, unit::none) + " " + x.label : format(value, x.measured_in);
}

std::string course(const line_chart &chart)
{
    const series &first = chart.lines.front();
    const datum &from = first.data.front(), &to = first.data.back();
    const std::string unit_x = chart.x.measured_in == unit::none ? " " + chart.x.label : "";
    return capital(fmt::format("{} goes from {} at {} to {} at {}{}.", first.label, format(from.y, chart.y.measured_in),
            format(from.x, chart.x.measured_in), format(to.y, chart.y.measured_in), format(to.x, chart.x.measured_in),
            unit_x));
}

std::string extremes(const line_chart &chart, bool lower_is_better)
{
    const double x = shared_x(chart);
    const series *lowest = nullptr, *highest = nullptr;
    for (const series &line : chart.lines) {
        const auto y = line.tail ? std::nullopt : value_at(line, x);
        if (!y)
            continue;
        if (!lowest || *y < *value_at(*lowest, x))
            lowest = &line;
        if (!highest || *y > *value_at(*highest, x))
            highest = &line;
    }
    if (!lowest || lowest == highest || *value_at(*lowest, x) == 0)
        return "";
    const series *best = lower_is_better ? lowest : highest, *worst = lower_is_better ? highest : lowest;
    const double ratio = *value_at(*worst, x) / *value_at(*best, x);
    const std::string where = at(chart.x, x);
    if (std::abs(ratio - 1) <= noise)
        return fmt::format(" At {} all agree within {:.0f} %.", where, noise * 100);
    return fmt::format(" At {} {} is best with {}; {} is last with {} ({:.2f} times).", where, best->label,
            format(*value_at(*best, x), chart.y.measured_in), worst->label,
            format(*value_at(*worst, x), chart.y.measured_in), ratio);
}

std::string tail(const line_chart &chart)
{
    const series &first = chart.lines.front();
    const auto companion = std::ranges::find_if(
            chart.lines, [&](const series &line) { return line.tail && line.colour == first.colour; });
    if (companion == chart.lines.end())
        return "";
    const double x = shared_x(chart);
    const auto high = value_at(*companion, x), low = value_at(first, x);
    if (!high || !low || *low == 0)
        return "";
    return fmt::format(" The dashed line is the 99th percentile: at {} it is {:.2f} times the median.", at(chart.x, x),
            *high / *low);
}

} // namespace

std::string caption_of(const line_chart &chart, bool lower_is_better)
{
    if (chart.lines.empty() || chart.lines.front().data.empty())
        return "";
    return course(chart) + extremes(chart, lower_is_better) + tail(chart);
}

std::string caption_of(const ratio_chart &chart)
{
    const auto worse_by = [](const ratio_row &row) { return row.lower_is_better ? row.ratio : 1 / row.ratio; };
    const auto within = std::ranges::count_if(
            chart.rows, [&](const ratio_row &row) { return std::abs(worse_by(row) - 1) <= noise; });
    const auto better =
            std::ranges::count_if(chart.rows, [&](const ratio_row &row) { return worse_by(row) < 1 - noise; });
    const auto worst = std::ranges::max_element(chart.rows, {}, worse_by);
    const auto rows = static_cast<std::ptrdiff_t>(chart.rows.size());
    std::string words = fmt::format("Of {} {} the same within {:.0f} %, {} better and {} worse.",
            format_count(chart.rows.size(), "comparison"), within == 1 ? "1 is" : fmt::format("{} are", within),
            noise * 100, better, rows - within - better);
    if (worse_by(*worst) > 1 + noise)
        words += fmt::format(" The largest loss is {}, {:.1f} %.", worst->label, (worse_by(*worst) - 1) * 100);
    return words;
}

std::string caption_of(const bar_chart &chart)
{
    const bar_group &first = chart.groups.front();
    const auto [low, high] = std::ranges::minmax_element(first.bars, {}, &bar::value);
    if (low == high || low->value == 0)
        return "";
    return capital(fmt::format("{}: {} {} beside {} {}, {:.2f} times.", first.label, low->label,
            format(low->value, chart.values.measured_in), high->label, format(high->value, chart.values.measured_in),
            high->value / low->value));
}

std::string compared(double ratio, const std::string &more, const std::string &less)
{
    if (std::abs(ratio - 1) <= noise)
        return fmt::format("the same within {:.0f} %", noise * 100);
    if (ratio >= 2)
        return fmt::format("{:.1f} times", ratio);
    return fmt::format("{:.0f} % {}", std::abs(ratio - 1) * 100, ratio > 1 ? more : less);
}

} // namespace bench::report
