// SPDX-License-Identifier: BSD-3-Clause
#include "grouping.hpp"

#include <algorithm>

namespace bench::report
{

namespace
{

bool contains(std::span<const attribute> set, attribute a)
{
    return std::ranges::find(set, a) != set.end();
}

bool alike(const entry &a, const entry &b, std::span<const attribute> in)
{
    return std::ranges::all_of(in, [&](attribute one) { return text(one, a) == text(one, b); });
}

// In order of appearance.
std::vector<entry_list> split(const entry_list &entries, std::span<const attribute> by)
{
    std::vector<entry_list> parts;
    for (const entry *e : entries) {
        const auto part = std::ranges::find_if(parts, [&](const entry_list &p) { return alike(*p.front(), *e, by); });
        if (part == parts.end())
            parts.push_back({e});
        else
            part->push_back(e);
    }
    return parts;
}

std::string words(const entry &e, std::span<const attribute> attributes)
{
    std::string joined;
    for (const attribute a : attributes) {
        const std::string word = text(a, e);
        if (!word.empty())
            joined += (joined.empty() ? "" : ", ") + word;
    }
    return joined;
}

std::vector<attribute> varying(const entry_list &entries, std::span<const attribute> among)
{
    std::vector<attribute> found;
    for (const attribute a : among) {
        if (varies(a, entries))
            found.push_back(a);
    }
    return found;
}

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
        std::string label = words(*part.front(), distinct);
        if (label.empty())
            label = text(attribute::operation, *part.front());
        made.lines.push_back({std::move(label), 0, std::move(part)});
    }
    std::ranges::stable_sort(made.lines, {}, [](const line &l) { return l.entries.front()->setup().api; });
    colour(made.lines);

    for (const attribute a : all_attributes) {
        if (a != attribute::run && !contains(x, a) && !contains(distinct, a))
            made.shared.push_back(a);
    }
    return made;
}

} // namespace

bool varies(attribute a, const entry_list &entries)
{
    return std::ranges::any_of(entries, [&](const entry *e) { return text(a, *e) != text(a, *entries.front()); });
}

std::vector<panel> group(const entry_list &entries, std::span<const attribute> x, std::span<const attribute> lines)
{
    std::vector<attribute> fixed;
    for (const attribute a : all_attributes) {
        if (!contains(x, a) && !contains(lines, a))
            fixed.push_back(a);
    }
    std::vector<panel> panels;
    for (const entry_list &part : split(entries, fixed))
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
        p.distinction = words(p.first(), distinct);
        std::vector<attribute> rest = p.shared;
        std::erase_if(rest, [&](attribute a) { return contains(distinct, a); });
        p.common = words(p.first(), rest);
    }
}

} // namespace bench::report
