// SPDX-License-Identifier: BSD-3-Clause
#include "chart.hpp"
#include "projection.hpp"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace bench::report
{

namespace
{

constexpr double width = 460, line_height = 290;
constexpr double left = 66, right = width - 16, top = 26, bottom = line_height - 44;

std::string escaped(const std::string &text)
{
    std::string out;
    for (const char c : text) {
        const std::string_view safe = c == '&'   ? "&amp;"
                                      : c == '<' ? "&lt;"
                                      : c == '>' ? "&gt;"
                                      : c == '"' ? "&quot;"
                                                 : "";
        out += safe.empty() ? std::string_view(&c, 1) : safe;
    }
    return out;
}

// An SVG element under construction.
class svg
{
public:
    explicit svg(std::string opening) : out_(std::move(opening)) {}
    // A picture with words for those who cannot see it.
    svg(double height, const std::string &id, const figure &f)
        : svg(fmt::format(R"(<svg viewBox="0 0 {0:g} {1:g}" role="img" aria-labelledby="{2}-t {2}-d">)"
                          R"(<title id="{2}-t">{3}</title><desc id="{2}-d">{4}</desc>)",
                  width, height, id, escaped(f.title), escaped(f.caption)))
    {
    }

    template<class... Values>
    void add(fmt::format_string<Values...> pattern, Values &&...values)
    {
        out_ += fmt::format(pattern, std::forward<Values>(values)...) + "\n";
    }
    void line(const std::string &classes, double x1, double y1, double x2, double y2)
    {
        add(R"(<line class="{}" x1="{:.1f}" y1="{:.1f}" x2="{:.1f}" y2="{:.1f}"/>)", classes, x1, y1, x2, y2);
    }
    void path(const std::string &classes, const std::string &d) { add(R"(<path class="{}" d="{}"/>)", classes, d); }
    void rect(const std::string &classes, double x, double y, double wide, double high)
    {
        add(R"(<rect class="{}" x="{:.1f}" y="{:.1f}" width="{:.1f}" height="{:.1f}"/>)", classes, x, y, wide, high);
    }
    void text(double x, double y, const std::string &words, const std::string &classes)
    {
        add(R"(<text x="{:.1f}" y="{:.1f}" class="{}">{}</text>)", x, y, classes, escaped(words));
    }
    // What is added until end() shows the words when the pointer rests on it.
    void begin(const std::string &classes, const std::string &words)
    {
        add(R"(<g class="{}"><title>{}</title>)", classes, escaped(words));
    }
    void end() { out_ += "</g>\n"; }
    // Shapes tell lines apart without colours.
    void mark(const std::string &classes, std::size_t shape, double x, double y)
    {
        const char *const shapes[] = {"m-3.5 0a3.5 3.5 0 1 0 7 0a3.5 3.5 0 1 0-7 0", "m-3.2-3.2h6.4v6.4h-6.4z",
                "m0-4.2l4 7h-8z", "m0-4.4l4.4 4.4l-4.4 4.4l-4.4-4.4z"};
        path(classes, fmt::format("M{:.1f} {:.1f}{}", x, y, shapes[shape % std::size(shapes)]));
    }
    std::string finish() const { return out_ + "</svg>\n"; }

private:
    std::string out_;
};

std::string class_of(std::size_t colour, const char *more)
{
    constexpr std::size_t palette_size = 8;
    return fmt::format("c{} {}", colour % palette_size, more);
}

void frame(svg &out, const projection &x, const projection &y)
{
    for (const tick &t : y.ticks_along()) {
        out.line("grid", left, t.at, right, t.at);
        out.text(left - 7, t.at + 4, t.label, "tick end");
    }
    for (const tick &t : x.ticks_across()) {
        out.line("grid", t.at, top, t.at, bottom);
        out.text(t.at, bottom + 17, t.label, "tick middle");
    }
    out.line("axis", left, bottom, right, bottom);
    out.text(6, 13, y.name(), "name");
    out.text((left + right) / 2, line_height - 8, x.name(), "name middle");
}

void draw_line(svg &out, const line_chart &chart, const series &line, const projection &x, const projection &y)
{
    const unit x_unit = chart.x.measured_in, y_unit = chart.y.measured_in;
    std::string path, marks;
    for (const datum &d : line.data)
        path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", x(d.x), y(d.y));
    out.path(class_of(line.colour, line.tail ? "line tail" : "line"), path);
    for (const datum &d : line.data) {
        const bool spread = d.low < d.high;
        out.begin(line.tail ? "point tail" : "point",
                fmt::format("{}\n{}: {}", line.label, format(d.x, x_unit), format(d.y, y_unit)) +
                        (spread ? fmt::format(" ({} to {})", format(d.low, y_unit), format(d.high, y_unit)) : ""));
        if (spread && !line.tail)
            out.line(class_of(line.colour, "spread"), x(d.x), y(d.low), x(d.x), y(d.high));
        out.mark(class_of(line.colour, "mark"), line.colour, x(d.x), y(d.y));
        out.end();
    }
    for (const double failed : line.failed) {
        out.begin("point", line.label + "\n" + format(failed, x_unit) + ": not measured");
        out.text(x(failed), bottom + 5, "✕", class_of(line.colour, "failed middle"));
        out.end();
    }
}

// What the scales cannot show is left out.
line_chart shown(line_chart chart)
{
    const auto hidden = [](const axis &a, double value) { return !can_show(a.how, value); };
    for (series &line : chart.lines) {
        std::erase_if(line.failed, [&](double at) { return hidden(chart.x, at); });
        std::erase_if(line.data, [&](const datum &d) { return hidden(chart.x, d.x) || hidden(chart.y, d.y); });
        for (datum &d : line.data)
            d.low = hidden(chart.y, d.low) ? d.y : d.low;
    }
    return chart;
}

std::string draw_lines(const line_chart &whole, const figure &f, const std::string &id)
{
    const line_chart chart = shown(whole);
    std::vector<double> xs, ys;
    for (const series &line : chart.lines) {
        xs.insert(xs.end(), line.failed.begin(), line.failed.end());
        for (const datum &d : line.data) {
            xs.push_back(d.x);
            ys.insert(ys.end(), {d.y, d.low, d.high});
        }
    }
    svg out(line_height, id, f);
    const projection x(chart.x, xs, left + 10, right - 10), y(chart.y, ys, bottom, top + 4);
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
    svg out(height, id, f);
    double y = 0;
    for (const bar_group &group : chart.groups) {
        out.text(6, y + 15, group.label, "name");
        y += head;
        for (const bar &b : group.bars) {
            const double length = highest > 0 ? (bar_right - bar_left) * b.value / highest : 0;
            out.text(bar_left - 7, y + 13, b.label, "tick end");
            out.rect(class_of(b.colour, "bar"), bar_left, y + 2, std::max(length, 1.0), row - 5);
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

std::string draw_ratios(const ratio_chart &chart, const figure &f, const std::string &id)
{
    constexpr double row = 38, head = 24, from = 24, to = width - 24;
    const double height = head + row * static_cast<double>(chart.rows.size()) + 6, span = reach(chart);
    const auto x = [&](double ratio) {
        const double place = ratio > 0 ? std::clamp(std::log(ratio), -span, span) : -span;
        return (from + to) / 2 + (to - from) / 2 * place / span;
    };
    svg out(height, id, f);
    out.rect("noise", x(1 - noise), head, x(1 + noise) - x(1 - noise), height - head);
    for (const double mark : {0.125, 0.25, 0.5, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.5, 2.0, 4.0, 8.0}) {
        const bool fine = mark == 0.8 || mark == 0.9 || mark == 1.1 || mark == 1.2, middle = mark == 0.7 || mark == 1.5;
        if (std::abs(std::log(mark)) > span || (fine && span > std::log(1.3)) || (middle && span > std::log(3)))
            continue;
        out.line(mark == 1 ? "axis" : "grid", x(mark), head, x(mark), height);
        out.text(x(mark), head - 8, fmt::format("{:g}", mark), "tick middle");
    }
    double y = head;
    for (const ratio_row &r : chart.rows) {
        const std::string range = interval(r.ratio, r.low, r.high);
        out.text(6, y + 14, r.label, "halo");
        out.text(width - 6, y + 14, range + " " + r.words, "value end halo");
        out.begin("point " + r.style, fmt::format("{}\n{} and {}\n{}", r.label, r.ours, r.other, range));
        out.line("spread", x(r.low), y + 25, x(r.high), y + 25);
        out.mark("mark", 0, x(r.ratio), y + 25);
        out.end();
        y += row;
    }
    return out.finish();
}

} // namespace

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
    svg out(R"(<svg viewBox="0 0 30 12" class="key" aria-hidden="true">)");
    out.path(class_of(line.colour, "line"), "M1 6H29");
    out.mark(class_of(line.colour, "mark"), line.colour, 15, 6);
    return out.finish();
}

} // namespace bench::report
