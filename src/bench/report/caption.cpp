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

// Where most lines have a value; of several such places the middle one.
double shared_x(const line_chart &chart)
{
    std::vector<double> best;
    std::ptrdiff_t most = 0;
    for (const datum &d : chart.lines.front().data) {
        const auto count = std::ranges::count_if(
                chart.lines, [&](const series &line) { return !line.tail && value_at(line, d.x).has_value(); });
        if (count > most)
            best.clear();
        if (count >= most)
            best.push_back(d.x);
        most = std::max(most, count);
    }
    return best.at(best.size() / 2);
}

std::string x_words(const axis &x, double value)
{
    return x.noun.empty() ? format(value, x.measured_in) : format_count(static_cast<std::size_t>(value), x.noun);
}

std::string course(const line_chart &chart)
{
    const series &first = chart.lines.front();
    const datum &from = first.data.front(), &to = first.data.back();
    return capital(fmt::format("{} goes from {} at {} to {} at {}.", first.label, format(from.y, chart.y.measured_in),
            x_words(chart.x, from.x), format(to.y, chart.y.measured_in), x_words(chart.x, to.x)));
}

// Few lines are all compared with the first.
std::string beside_first(const line_chart &chart, double x, const std::vector<const series *> &lines)
{
    const double first = *value_at(*lines.front(), x);
    std::string words;
    for (const series *line : lines) {
        const double y = *value_at(*line, x);
        words += words.empty() ? " At " + x_words(chart.x, x) + ": " : ", ";
        words += line->label + " " + format(y, chart.y.measured_in);
        if (line != lines.front() && first > 0)
            words += " (" + compared(y / first, "more", "less") + ")";
    }
    return words + ".";
}

std::string extremes(const line_chart &chart, double x, const std::vector<const series *> &lines, bool lower_is_better)
{
    const auto y = [x](const series *line) { return *value_at(*line, x); };
    const auto [lowest, highest] = std::ranges::minmax(lines, {}, y);
    const series *best = lower_is_better ? lowest : highest, *worst = lower_is_better ? highest : lowest;
    return fmt::format(" At {} {} is best with {} and {} last with {}.", x_words(chart.x, x), best->label,
            format(y(best), chart.y.measured_in), worst->label, format(y(worst), chart.y.measured_in));
}

std::string differences(const line_chart &chart, bool lower_is_better)
{
    const double x = shared_x(chart);
    std::vector<const series *> lines;
    for (const series &line : chart.lines) {
        if (!line.tail && value_at(line, x))
            lines.push_back(&line);
    }
    if (lines.size() < 2)
        return "";
    return lines.size() <= 4 ? beside_first(chart, x, lines) : extremes(chart, x, lines, lower_is_better);
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
    return fmt::format(" Dashed: the 99th percentile, which for {} at {} is {:.3g} times the median.", first.label,
            x_words(chart.x, x), *high / *low);
}

// By what time a share of the operations was done.
std::string percentile_words(const line_chart &chart)
{
    const series &first = chart.lines.front();
    std::string words = first.label + ":";
    for (const double rank : {50.0, 99.0, 99.9, 99.99}) {
        const auto reached = std::ranges::find_if(first.data, [&](const datum &d) { return d.x >= rank - 1e-9; });
        if (reached != first.data.end())
            words += fmt::format("{} {:g} % are done within {}", words.back() == ':' ? "" : ",", rank,
                    format(reached->y, chart.y.measured_in));
    }
    return capital(words + ".");
}

} // namespace

std::string caption_of(const line_chart &chart, bool lower_is_better)
{
    if (chart.lines.empty() || chart.lines.front().data.empty())
        return "";
    if (chart.x.how == scale::nines)
        return percentile_words(chart);
    return course(chart) + differences(chart, lower_is_better) + tail(chart);
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
    if (within == rows)
        return fmt::format(
                "{} the same within {:.0f} %.", rows == 1 ? "It is" : fmt::format("All {} are", rows), noise * 100);
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
    return capital(fmt::format("{}: {} {} beside {} {}, {:.3g} times.", first.label, low->label,
            format(low->value, chart.values.measured_in), high->label, format(high->value, chart.values.measured_in),
            high->value / low->value));
}

std::string compared(double ratio, const std::string &more, const std::string &less)
{
    if (std::abs(ratio - 1) <= noise)
        return fmt::format("the same within {:.0f} %", noise * 100);
    if (ratio >= 2)
        return fmt::format("{:.3g} times", ratio);
    if (ratio <= 0.1)
        return fmt::format("1/{:.0f} of it", 1 / ratio);
    return fmt::format("{:.0f} % {}", std::abs(ratio - 1) * 100, ratio > 1 ? more : less);
}

} // namespace bench::report
