// SPDX-License-Identifier: BSD-3-Clause
#include "assets.hpp"
#include "chart.hpp"
#include "headline.hpp"
#include "report.hpp"
#include "table.hpp"

#include <fmt/format.h>
#include <kainjow/mustache.hpp>

namespace bench::report
{

namespace
{

using kainjow::mustache::data;
using kainjow::mustache::mustache;

std::string base64(const std::string &bytes)
{
    constexpr const char *digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    std::string out;
    out.reserve((bytes.size() + 2) / 3 * 4);
    for (std::size_t i = 0; i < bytes.size(); i += 3) {
        std::uint32_t three = 0;
        for (std::size_t k = 0; k < 3; ++k)
            three = three << 8 | (i + k < bytes.size() ? static_cast<unsigned char>(bytes[i + k]) : 0u);
        for (std::size_t k = 0; k < 4; ++k)
            out += i + k <= bytes.size() ? digits[three >> (18 - 6 * k) & 63] : '=';
    }
    return out;
}

data list_of(const std::vector<std::string> &texts)
{
    data list(data::type::list);
    for (const std::string &text : texts)
        list << data("text", text);
    return list;
}

data data_of(const table &t)
{
    data head(data::type::list), rows(data::type::list);
    for (std::size_t i = 0; i < t.head.size(); ++i) {
        data column("text", t.head[i]);
        column.set("numeric", !t.rows.empty() && t.rows.front()[i].numeric);
        head << column;
    }
    for (const auto &row : t.rows) {
        data cells(data::type::list);
        for (const cell &c : row) {
            data one("text", c.text);
            one.set("numeric", c.numeric);
            one.set("order", fmt::format("{:.10g}", c.order));
            cells << one;
        }
        rows << data("cells", cells);
    }
    data made("head", head);
    made.set("rows", rows);
    return made;
}

data legend_of(const figure &f)
{
    data legend(data::type::list);
    const auto *chart = std::get_if<line_chart>(&f.chart);
    if (!chart)
        return legend;
    for (const series &line : chart->lines) {
        if (line.tail)
            continue;
        data one("key", draw_key(line));
        one.set("label", line.label);
        legend << one;
    }
    return legend;
}

data data_of(const figure &f, std::size_t number)
{
    data made("title", f.title);
    made.set("number", std::to_string(number));
    made.set("subtitle", f.subtitle);
    made.set("caption", f.caption);
    made.set("chart", draw(f, fmt::format("f{}", number)));
    made.set("legend", legend_of(f));
    made.set("table", data_of(table_of(f)));
    return made;
}

data sections_of(const std::vector<figure> &figures)
{
    data list(data::type::list);
    std::size_t number = 0;
    for (const section &s : all_sections()) {
        data drawn(data::type::list);
        bool any = false;
        for (const figure &f : figures) {
            if (f.group != s.key)
                continue;
            drawn << data_of(f, ++number);
            any = true;
        }
        if (!any)
            continue;
        data made("key", s.key);
        made.set("heading", s.heading);
        made.set("short_name", s.short_name);
        made.set("figures", drawn);
        list << made;
    }
    return list;
}

data cards_of(const headline &h)
{
    data list(data::type::list);
    for (const card &c : h.cards) {
        data one("value", c.value);
        one.set("label", c.label);
        one.set("detail", c.detail);
        one.set("verdict", c.verdict);
        list << one;
    }
    return list;
}

data runs_of(std::span<const run> runs)
{
    data list(data::type::list);
    for (const run &r : runs) {
        data one("name", r.name);
        one.set("environment", data_of(environment_of(r.data)));
        one.set("json", base64(format_results(r.data)));
        list << one;
    }
    return list;
}

} // namespace

std::string html(std::span<const run> runs, const std::string &title, const std::vector<figure> &figures)
{
    const std::vector<entry> entries = entries_of(runs);
    const headline h = headline_of(runs, entries);
    const table gaps = missing(entries), points = table_of(entries);

    data page("title", title);
    page.set("style", assets::style);
    page.set("script", assets::script);
    page.set("started", runs.front().data.started);
    page.set("facts", h.facts);
    page.set("cards", cards_of(h));
    page.set("notes", list_of(h.notes));
    page.set("noted", !h.notes.empty());
    page.set("sections", sections_of(figures));
    page.set("incomplete", !gaps.rows.empty());
    page.set("missing", data_of(gaps));
    page.set("measured", !points.rows.empty());
    page.set("points", data_of(points));
    page.set("common", points.common);
    page.set("alike", !points.common.empty());
    page.set("runs", runs_of(runs));
    page.set("csv", base64(csv(runs)));

    // Every table is written the same way.
    page.set("table_body", kainjow::mustache::partial([] { return std::string(assets::table); }));
    mustache document(assets::page);
    return document.render(page);
}

} // namespace bench::report
