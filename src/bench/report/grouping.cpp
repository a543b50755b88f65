// SPDX-License-Identifier: BSD-3-Clause
#include "grouping.hpp"

#include <algorithm>

namespace bench::report
{

namespace
{

// An api keeps its colour from figure to figure when it tells the lines apart.
void colour(std::vector<line> &lines)
{
    const auto api_of = [](const line &l) { return l.entries.front()->setup().api; };
    const bool by_api = lines.size() > 1 && std::ranges::adjacent_find(lines, {}, api_of) == lines.end();
    for (std::size_t i = 0; i < lines.size(); ++i)
        lines[i].colour = by_api ? static_cast<std::size_t>(api_of(lines[i])) : i;
}

panel panel_of(const entry_list &entries, std::span<const attribute> x, std::span<const attribute> by)
{
    panel made;
    const std::vector<attribute> distinct = varying(entries, by);
    for (entry_list &part : split(entries, by)) {
        std::string label = texts(distinct, *part.front());
        if (label.empty())
            label = text(attribute::operation, *part.front());
        made.lines.push_back({std::move(label), 0, std::move(part)});
    }
    std::ranges::stable_sort(made.lines, {}, [](const line &l) { return l.entries.front()->setup().api; });
    colour(made.lines);
    made.shared = without(without(all_attributes, x), distinct);
    std::erase(made.shared, attribute::run);
    return made;
}

} // namespace

std::vector<entry_list> split(const entry_list &entries, std::span<const attribute> by)
{
    std::vector<entry_list> parts;
    for (const entry *e : entries) {
        const auto alike = [&](const entry_list &part) {
            return std::ranges::all_of(by, [&](attribute a) { return text(a, *part.front()) == text(a, *e); });
        };
        const auto part = std::ranges::find_if(parts, alike);
        if (part == parts.end())
            parts.push_back({e});
        else
            part->push_back(e);
    }
    return parts;
}

std::vector<attribute> varying(const entry_list &entries, std::span<const attribute> among)
{
    std::vector<attribute> found(among.begin(), among.end());
    std::erase_if(found, [&](attribute a) { return split(entries, {&a, 1}).size() < 2; });
    return found;
}

std::vector<attribute> without(std::span<const attribute> attributes, std::span<const attribute> some)
{
    std::vector<attribute> left(attributes.begin(), attributes.end());
    std::erase_if(left, [&](attribute a) { return std::ranges::find(some, a) != some.end(); });
    return left;
}

std::vector<panel> group(const entry_list &entries, std::span<const attribute> x, std::span<const attribute> lines)
{
    std::vector<panel> panels;
    for (const entry_list &part : split(entries, without(without(all_attributes, x), lines)))
        panels.push_back(panel_of(part, x, lines));
    return panels;
}

void describe(std::vector<panel> &panels)
{
    entry_list firsts;
    for (const panel &p : panels)
        firsts.push_back(&p.first());
    for (panel &p : panels) {
        const std::vector<attribute> distinct = varying(firsts, p.shared);
        p.distinction = texts(distinct, p.first());
        p.common = texts(without(p.shared, distinct), p.first());
    }
}

} // namespace bench::report
