// SPDX-License-Identifier: BSD-3-Clause
#include "chart.hpp"
#include "projection.hpp"
#include "svg.hpp"
#include "verdict.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace bench::report
{

namespace
{

constexpr double width = 460, line_height = 290;
constexpr double left = 66, right = width - 16, top = 26, bottom = line_height - 44;

std::string class_of(std::size_t colour, const char *more)
{
    return fmt::format("c{} {}", colour % palette_size, more);
}

// Shapes tell lines apart without colours.
void mark(svg &out, std::size_t colour, double x, double y)
{
    const std::string classes = class_of(colour, "mark");
    switch (colour % 4) {
    case 0:
        out.leaf("circle", {{"class", classes}, {"cx", x}, {"cy", y}, {"r", 3.5}});
        break;
    case 1:
        out.leaf("rect", {{"class", classes}, {"x", x - 3.2}, {"y", y - 3.2}, {"width", 6.4}, {"height", 6.4}});
        break;
    case 2:
        out.leaf("path", {{"class", classes}, {"d", fmt::format("M{:.1f} {:.1f}l4 7h-8z", x, y - 4.2)}});
        break;
    default:
        out.leaf("path",
                {{"class", classes}, {"d", fmt::format("M{:.1f} {:.1f}l4.4 4.4l-4.4 4.4l-4.4-4.4z", x, y - 4.4)}});
    }
}

std::vector<double> x_values(const line_chart &chart)
{
    std::vector<double> values;
    for (const series &line : chart.lines) {
        values.insert(values.end(), line.failed.begin(), line.failed.end());
        for (const datum &d : line.data)
            values.push_back(d.x);
    }
    return values;
}

std::vector<double> y_values(const line_chart &chart)
{
    std::vector<double> values;
    for (const series &line : chart.lines) {
        for (const datum &d : line.data)
            values.insert(values.end(), {d.y, d.low, d.high});
    }
    return values;
}

void frame(svg &out, const projection &x, const projection &y)
{
    for (const tick &t : y.ticks_along()) {
        out.leaf("line", {{"class", "grid"}, {"x1", left}, {"x2", right}, {"y1", t.at}, {"y2", t.at}});
        out.text(left - 7, t.at + 4, t.label, "tick end");
    }
    for (const tick &t : x.ticks_across()) {
        out.leaf("line", {{"class", "grid"}, {"x1", t.at}, {"x2", t.at}, {"y1", top}, {"y2", bottom}});
        if (!t.label.empty())
            out.text(t.at, bottom + 17, t.label, "tick middle");
    }
    out.leaf("line", {{"class", "axis"}, {"x1", left}, {"x2", right}, {"y1", bottom}, {"y2", bottom}});
    out.text(6, 13, y.name(), "name");
    out.text((left + right) / 2, line_height - 8, x.name(), "name middle");
}

std::string told(const series &line, const line_chart &chart, const datum &d)
{
    std::string words =
            fmt::format("{}\n{}: {}", line.label, format(d.x, chart.x.measured_in), format(d.y, chart.y.measured_in));
    if (d.low < d.high)
        words += fmt::format(" ({} to {})", format(d.low, chart.y.measured_in), format(d.high, chart.y.measured_in));
    return words;
}

void draw_line(svg &out, const line_chart &chart, const series &line, const projection &x, const projection &y)
{
    std::string path;
    for (const datum &d : line.data) {
        if (x.shows(d.x) && y.shows(d.y))
            path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x(d.x), y(d.y));
    }
    out.leaf("path", {{"class", class_of(line.colour, line.tail ? "line tail" : "line")}, {"d", path}});
    for (const datum &d : line.data) {
        if (!x.shows(d.x) || !y.shows(d.y))
            continue;
        out.open("g", {{"class", line.tail ? "point tail" : "point"}});
        out.tooltip(told(line, chart, d));
        if (d.low < d.high && y.shows(d.low) && !line.tail)
            out.leaf("line", {{"class", class_of(line.colour, "spread")}, {"x1", x(d.x)}, {"x2", x(d.x)},
                                     {"y1", y(d.low)}, {"y2", y(d.high)}});
        mark(out, line.colour, x(d.x), y(d.y));
        out.close();
    }
    for (const double failed : line.failed) {
        if (!x.shows(failed))
            continue;
        out.open("g", {{"class", "point"}});
        out.tooltip(line.label + "\n" + format(failed, chart.x.measured_in) + ": not measured");
        out.text(x(failed), bottom + 5, "✕", class_of(line.colour, "failed middle").c_str());
        out.close();
    }
}

std::string draw_lines(const line_chart &chart, const figure &f, const std::string &id)
{
    svg out(width, line_height, id, f.title, f.caption);
    const projection x(chart.x, x_values(chart), left + 10, right - 10), y(chart.y, y_values(chart), bottom, top + 4);
    frame(out, x, y);
    // The first line is what the figure is about: it lies on top.
    for (const bool tails : {true, false}) {
        for (auto line = chart.lines.rbegin(); line != chart.lines.rend(); ++line) {
            if (line->tail == tails)
                draw_line(out, chart, *line, x, y);
        }
    }
    return out.finish();
}

std::string draw_bars(const bar_chart &chart, const figure &f, const std::string &id)
{
    constexpr double row = 19, head = 22, gap = 10, bar_left = 178, bar_right = width - 78;
    double height = 4, highest = 0;
    for (const bar_group &group : chart.groups) {
        height += head + gap + row * static_cast<double>(group.bars.size());
        for (const bar &b : group.bars)
            highest = std::max(highest, b.value);
    }
    svg out(width, height, id, f.title, f.caption);
    double y = 0;
    for (const bar_group &group : chart.groups) {
        out.text(6, y + 15, group.label, "name");
        y += head;
        for (const bar &b : group.bars) {
            const double length = highest > 0 ? (bar_right - bar_left) * b.value / highest : 0;
            out.text(bar_left - 7, y + 13, b.label, "tick end");
            out.leaf("rect", {{"class", class_of(b.colour, "bar")}, {"x", bar_left}, {"y", y + 2},
                                     {"width", std::max(length, 1.0)}, {"height", row - 5}, {"rx", 2.0}});
            out.text(bar_left + length + 6, y + 13, format(b.value, chart.values.measured_in), "value");
            y += row;
        }
        y += gap;
    }
    return out.finish();
}

// The ends of the axis as logarithms, so that twice and half are equally far from even.
double reach(const ratio_chart &chart)
{
    double reach = std::log(1.12);
    for (const ratio_row &row : chart.rows) {
        for (const double value : {row.ratio, row.low, row.high})
            reach = value > 0 ? std::max(reach, std::abs(std::log(value)) * 1.05) : reach;
    }
    return std::min(reach, std::log(8.0));
}

std::vector<double> round_ratios(double span)
{
    std::vector<double> ratios = {0.125, 0.25, 0.5, 1, 2, 4, 8};
    if (span < std::log(1.3))
        ratios = {0.8, 0.9, 1, 1.1, 1.2};
    else if (span < std::log(3))
        ratios = {0.5, 0.7, 1, 1.5, 2};
    std::erase_if(ratios, [span](double ratio) { return std::abs(std::log(ratio)) > span; });
    return ratios;
}

std::string draw_ratios(const ratio_chart &chart, const figure &f, const std::string &id)
{
    constexpr double row = 38, head = 24, from = 24, to = width - 24;
    const double height = head + row * static_cast<double>(chart.rows.size()) + 6, span = reach(chart);
    const auto x = [&](double ratio) {
        const double place = ratio > 0 ? std::clamp(std::log(ratio), -span, span) : -span;
        return (from + to) / 2 + (to - from) / 2 * place / span;
    };
    svg out(width, height, id, f.title, f.caption);
    out.leaf("rect", {{"class", "noise"}, {"x", x(1 - noise)}, {"y", head}, {"width", x(1 + noise) - x(1 - noise)},
                             {"height", height - head}});
    for (const double ratio : round_ratios(span)) {
        out.leaf("line", {{"class", ratio == 1 ? "axis" : "grid"}, {"x1", x(ratio)}, {"x2", x(ratio)}, {"y1", head},
                                 {"y2", height}});
        out.text(x(ratio), head - 8, fmt::format("{:g}", ratio), "tick middle");
    }
    double y = head;
    for (const ratio_row &r : chart.rows) {
        out.text(6, y + 14, r.label, "halo");
        out.text(width - 6, y + 14, interval(r.ratio, r.low, r.high) + " " + verdict_of(r), "value end halo");
        out.open("g", {{"class", std::string("point ") + style_of(r)}});
        out.tooltip(fmt::format("{}\n{} and {}\n{}", r.label, r.ours, r.other, interval(r.ratio, r.low, r.high)));
        out.leaf("line", {{"class", "spread"}, {"x1", x(r.low)}, {"x2", x(r.high)}, {"y1", y + 25}, {"y2", y + 25}});
        out.leaf("circle", {{"class", "mark"}, {"cx", x(r.ratio)}, {"cy", y + 25}, {"r", 4.5}});
        out.close();
        y += row;
    }
    return out.finish();
}

} // namespace

std::string interval(double ratio, double low, double high)
{
    return fmt::format(
            "{} ({} to {})", format(ratio, unit::ratio), format(low, unit::ratio), format(high, unit::ratio));
}

const char *style_of(verdict v)
{
    if (v == verdict::no_difference)
        return "even";
    return v == verdict::better ? "better" : "worse";
}

const char *style_of(const ratio_row &row)
{
    return row.judged ? style_of(judge(row.ratio, row.low, row.high, row.lower_is_better)) : "even";
}

std::string verdict_of(const ratio_row &row)
{
    return row.judged ? to_words(judge(row.ratio, row.low, row.high, row.lower_is_better)) : "no conclusion";
}

std::string draw(const figure &f, const std::string &id)
{
    if (const auto *lines = std::get_if<line_chart>(&f.chart))
        return draw_lines(*lines, f, id);
    if (const auto *bars = std::get_if<bar_chart>(&f.chart))
        return draw_bars(*bars, f, id);
    return draw_ratios(std::get<ratio_chart>(f.chart), f, id);
}

std::string draw_key(const series &line)
{
    svg out(30, 12, "key");
    out.leaf("path", {{"class", class_of(line.colour, line.tail ? "line tail" : "line")}, {"d", "M1 6H29"}});
    mark(out, line.colour, 15, 6);
    return out.finish();
}

} // namespace bench::report
