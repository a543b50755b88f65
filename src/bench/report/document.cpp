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

using kainjow::mustache::list;
using kainjow::mustache::mustache;
using kainjow::mustache::object;

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

object data_of(const table &t)
{
    list head, rows;
    for (std::size_t i = 0; i < t.head.size(); ++i)
        head.push_back(object{{"text", t.head[i]}, {"numeric", !t.rows.empty() && t.rows.front()[i].numeric}});
    for (const auto &row : t.rows) {
        list cells;
        for (const cell &c : row)
            cells.push_back(
                    object{{"text", c.text}, {"numeric", c.numeric}, {"order", fmt::format("{:.10g}", c.order)}});
        rows.push_back(object{{"cells", cells}});
    }
    return {{"head", head}, {"rows", rows}, {"filled", !t.rows.empty()}, {"common", t.common},
            {"alike", !t.common.empty()}};
}

object data_of(const figure &f, std::size_t number)
{
    list legend;
    if (const auto *chart = std::get_if<line_chart>(&f.chart)) {
        for (const series &line : chart->lines) {
            if (!line.tail)
                legend.push_back(object{{"key", draw_key(line)}, {"label", line.label}});
        }
    }
    return {{"title", f.title}, {"number", std::to_string(number)}, {"subtitle", f.subtitle}, {"caption", f.caption},
            {"chart", draw(f, fmt::format("f{}", number))}, {"legend", legend}, {"table", data_of(table_of(f))}};
}

list sections_of(const std::vector<figure> &figures)
{
    list sections;
    std::size_t number = 0;
    for (const section &s : all_sections()) {
        list drawn;
        for (const figure &f : figures) {
            if (f.group == s.key)
                drawn.push_back(data_of(f, ++number));
        }
        if (!drawn.empty())
            sections.push_back(
                    object{{"key", s.key}, {"heading", s.heading}, {"short_name", s.short_name}, {"figures", drawn}});
    }
    return sections;
}

// What both forms begin with. Every table is written the same way.
object start_of(std::span<const run> runs, std::span<const entry> entries, const std::string &title, const char *table)
{
    const headline h = headline_of(runs, entries);
    list cards, notes;
    for (const card &c : h.cards)
        cards.push_back(object{{"value", c.value}, {"label", c.label}, {"detail", c.detail}, {"style", c.style}});
    for (const std::string &note : h.notes)
        notes.push_back(object{{"text", note}});
    return {{"title", title}, {"facts", h.facts}, {"cards", cards}, {"notes", notes}, {"noted", !h.notes.empty()},
            {"table_body", kainjow::mustache::partial([table] { return std::string(table); })}};
}

std::string escaped_markdown(const std::string &text)
{
    std::string out;
    for (const char c : text) {
        if (std::string_view("|\\*_`<[").find(c) != std::string_view::npos)
            out += '\\';
        out += c == '\n' ? ' ' : c;
    }
    return out;
}

} // namespace

std::string html(std::span<const run> runs, const std::string &title, const std::vector<figure> &figures)
{
    const std::vector<entry> entries = entries_of(runs);
    object page = start_of(runs, entries, title, assets::html_table);
    list files;
    for (const run &r : runs)
        files.push_back(object{{"name", r.name}, {"environment", data_of(environment_of(r.data))},
                {"json", base64(format_results(r.data))}});
    page.insert({{"style_sheet", assets::style}, {"script", assets::script}, {"started", runs.front().data.started},
            {"sections", sections_of(figures)}, {"missing", data_of(missing(entries))},
            {"points", data_of(table_of(entries))}, {"runs", files}, {"csv", base64(csv(runs))}});
    return mustache(assets::html).render(page);
}

std::string markdown(std::span<const run> runs, const std::string &title)
{
    const std::vector<entry> entries = entries_of(runs);
    object page = start_of(runs, entries, title, assets::markdown_table);
    list tables;
    const auto add = [&](const std::string &heading, const table &t, const std::string &caption) {
        if (!t.rows.empty())
            tables.push_back(object{{"heading", heading}, {"table", data_of(t)}, {"caption", caption},
                    {"captioned", !caption.empty()}});
    };
    add("What is missing", missing(entries), "");
    for (const figure &f : figures_of(runs, {"compare", "interfaces"}))
        add(f.title, table_of(f), f.caption);
    const table points = table_of(entries);
    add("Every point", points, points.common);
    for (const run &r : runs)
        add(runs.size() == 1 ? "Environment" : "Environment of " + r.name, environment_of(r.data), "");
    page.insert({{"tables", tables}});
    mustache document(assets::markdown);
    document.set_custom_escape(escaped_markdown);
    return document.render(page);
}

} // namespace bench::report
