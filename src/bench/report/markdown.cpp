// SPDX-License-Identifier: BSD-3-Clause
#include "headline.hpp"
#include "report.hpp"
#include "table.hpp"

namespace bench::report
{

namespace
{

std::string escaped(const std::string &text)
{
    std::string out;
    for (const char c : text) {
        if (c == '|' || c == '\\' || c == '*' || c == '_' || c == '`' || c == '<' || c == '[')
            out += '\\';
        out += c == '\n' ? ' ' : c;
    }
    return out;
}

std::string print(const table &t)
{
    if (t.rows.empty())
        return "";
    std::string out = "|", rule = "|";
    for (std::size_t i = 0; i < t.head.size(); ++i) {
        out += " " + escaped(t.head[i]) + " |";
        rule += t.rows.front()[i].numeric ? "---:|" : "---|";
    }
    out += "\n" + rule + "\n";
    for (const auto &row : t.rows) {
        out += "|";
        for (const cell &c : row)
            out += " " + escaped(c.text) + " |";
        out += "\n";
    }
    return out + "\n";
}

std::string titled(const std::string &heading, const table &t)
{
    return t.rows.empty() ? "" : "## " + heading + "\n\n" + print(t);
}

} // namespace

std::string markdown(std::span<const run> runs, const std::string &title)
{
    const std::vector<entry> entries = entries_of(runs);
    const headline h = headline_of(runs, entries);
    std::string out = "# " + escaped(title) + "\n\n" + escaped(h.facts) + "\n\n";
    for (const card &c : h.cards)
        out += "- **" + escaped(c.value) + "** " + escaped(c.label) + ": " + escaped(c.detail) + "\n";
    if (!h.notes.empty())
        out += "\n## Notes\n\n";
    for (const std::string &note : h.notes)
        out += "- " + escaped(note) + "\n";
    out += "\n" + titled("What is missing", missing(entries));
    for (const figure &f : figures_of(runs, {"compare", "interfaces"}))
        out += titled(escaped(f.title), table_of(f)) + escaped(f.caption) + "\n\n";
    const table points = table_of(entries);
    out += titled("Every point", points);
    if (!points.common.empty())
        out += "For all points: " + escaped(points.common) + ".\n\n";
    for (const run &r : runs)
        out += titled(runs.size() == 1 ? "Environment" : "Environment of " + escaped(r.name), environment_of(r.data));
    out.resize(out.find_last_not_of('\n') + 1);
    return out + "\n";
}

} // namespace bench::report
