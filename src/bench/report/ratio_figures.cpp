// SPDX-License-Identifier: BSD-3-Clause
#include "figure.hpp"
#include "grouping.hpp"
#include "metric.hpp"

#include <algorithm>
#include <optional>

namespace bench::report
{

namespace
{

constexpr const char *p50 = "latency_p50";

// Measurements that are divided in the same way.
struct ratios {
    figure frame; // what their figures have in common
    bool judged;  // false: the run allows no conclusion
    bool lower_is_better;
    std::vector<entry> entries; // what was divided
    std::vector<ratio_row> rows;
};

ratio_row judged(ratio_row row, bool conclusive, bool lower_is_better)
{
    const verdict v = judge(row.ratio, row.low, row.high, lower_is_better);
    row.words = conclusive ? to_words(v) : "no conclusion";
    row.style = !conclusive || v == verdict::no_difference ? "even" : to_words(v);
    return row;
}

// What tells an entry from the others.
std::string label_of(const entry &e, const entry_list &all, bool with_operation)
{
    using enum attribute;
    const attribute said[] = {operation, api, library};
    const std::string operation_text = text(operation, e), more = texts(without(varying(all, all_attributes), said), e);
    if (with_operation)
        return operation_text + (more.empty() ? "" : ", ") + more;
    return more.empty() ? operation_text : more;
}

entry_list list_of(std::span<const entry> entries)
{
    entry_list all;
    for (const entry &e : entries)
        all.push_back(&e);
    return all;
}

// One figure; more rows than are easily read are one for each operation.
void append(std::vector<figure> &figures, const ratios &r)
{
    constexpr std::size_t most_rows = 10;
    const attribute by[] = {attribute::operation};
    const entry_list all = list_of(r.entries);
    const bool many = all.size() > most_rows;
    for (const entry_list &part : many ? split(all, by) : std::vector<entry_list>{all}) {
        figure made = r.frame;
        made.title += many ? ": " + text(attribute::operation, *part.front()) : "";
        for (const entry *e : part) {
            ratio_row row = r.rows[static_cast<std::size_t>(e - r.entries.data())];
            row.label = label_of(*e, part, !many);
            std::get<ratio_chart>(made.chart).rows.push_back(judged(std::move(row), r.judged, r.lower_is_better));
        }
        figures.push_back(std::move(made));
    }
}

ratios comparison(const run &r, const metric &m)
{
    const std::string refusal = why_no_conclusion(r.data);
    ratios made = {{"compare", std::string("Libraries compared: ") + m.name, "",
                           refusal.empty() ? "Dot: median of the runs' ratios; line: their middle half"
                                           : "No conclusion: " + refusal,
                           ratio_chart{}},
            refusal.empty(), m.lower_is_better, {}, {}};
    for (const pair &p : r.data.pairs) {
        if (p.metric != m.key || p.ratio == 0)
            continue;
        made.frame.chart = ratio_chart{side(p.ours), side(p.other), {}};
        made.frame.subtitle = side(p.ours) + " divided by " + side(p.other) + ", runs in turns, log scale";
        made.entries.push_back({r.name, "", "", {p.ours, status::done, "", {}}});
        made.rows.push_back({"", p.ratio, p.ratio_low, p.ratio_high, format(p.ours_value, m.measured_in),
                format(p.other_value, m.measured_in), "", ""});
    }
    return made;
}

// Repeats in the order they were measured, so that what drifts with time divides out.
std::optional<ratio_row> divided(const entry &ours, const entry &other, const metric &m)
{
    std::vector<double> values;
    const std::size_t count = std::min(ours.point.repeats.size(), other.point.repeats.size());
    for (std::size_t i = 0; i < count; ++i) {
        const auto a = m.of(ours.point.repeats[i]), b = m.of(other.point.repeats[i]);
        if (a && b && *b > 0)
            values.push_back(*a / *b);
    }
    const auto mine = summarize(ours.point, m), theirs = summarize(other.point, m);
    if (values.empty() || !mine || !theirs)
        return std::nullopt;
    const summary s = summarize(values);
    return ratio_row{"", s.median, s.low, s.high, format(mine->median, m.measured_in),
            format(theirs->median, m.measured_in), "", ""};
}

ratios beside_verbs(std::span<const run> runs, std::span<const entry> entries)
{
    const bool conclusive = std::ranges::all_of(runs, [](const run &r) { return why_no_conclusion(r.data).empty(); });
    ratios made = {{"interfaces", "What the library costs beside raw verbs",
                           "librpma divided by raw verbs, median latency, log scale",
                           "Dot: median of the repeats' ratios; line: lowest to highest",
                           ratio_chart{"librpma", "raw verbs", {}}},
            conclusive, true, {}, {}};
    for (const entry &e : entries) {
        setup wanted = e.setup();
        wanted.api = api::verbs;
        wanted.library = "";
        const auto other = std::ranges::find_if(
                entries, [&](const entry &o) { return o.half.empty() && o.run == e.run && o.setup() == wanted; });
        if (e.setup().api != api::librpma || !e.half.empty() || other == entries.end())
            continue;
        if (auto row = divided(e, *other, metric_of(p50))) {
            made.entries.push_back(e);
            made.rows.push_back(std::move(*row));
        }
    }
    return made;
}

} // namespace

std::vector<figure> ratio_figures(std::span<const run> runs, std::span<const entry> entries)
{
    std::vector<figure> figures;
    for (const run &r : runs) {
        for (const metric &m : all_metrics()) {
            if (const ratios found = comparison(r, m); !found.rows.empty())
                append(figures, found);
        }
    }
    if (const ratios found = beside_verbs(runs, entries); !found.rows.empty())
        append(figures, found);
    return figures;
}

ratio_row overall_ratio(std::span<const run> runs, std::span<const entry> entries)
{
    ratios all = beside_verbs(runs, entries);
    for (const run &r : runs) {
        if (ratios found = comparison(r, metric_of(p50)); !found.rows.empty()) {
            all = std::move(found);
            break;
        }
    }
    if (all.rows.empty())
        return {};
    std::vector<double> values;
    for (const ratio_row &row : all.rows)
        values.push_back(row.ratio);
    const ratio_chart &sides = std::get<ratio_chart>(all.frame.chart);
    return judged({"latency beside " + sides.other, quantile(values, 0.5), quantile(values, 0.25),
                          quantile(values, 0.75), sides.ours, sides.other, "", ""},
            all.judged, true);
}

std::vector<figure> bar_figures(std::span<const entry> entries)
{
    const metric &m = metric_of(p50);
    const std::uint64_t size = usual_block_size(entries);
    entry_list admitted;
    for (const entry &e : entries) {
        const parameters &p = e.parameters();
        const bool usual = p.block_size == size && at_rest(p) && p.access == access::sequential;
        if (e.half.empty() && usual && summarize(e.point, m))
            admitted.push_back(&e);
    }
    // A baseline may wait in another way than the library: its bar says so. Two ways of waiting are no two interfaces.
    using enum attribute;
    const attribute lines[] = {api, polling, library, run}, sides[] = {api, library, run};
    bar_chart chart = {{m.name, m.measured_in, scale::linear}, {}};
    for (const panel &p : group(admitted, {}, lines)) {
        entry_list measured;
        for (const line &l : p.lines)
            measured.push_back(l.entries.back());
        if (varying(measured, sides).empty())
            continue;
        bar_group &made = chart.groups.emplace_back();
        made.label = texts(without(varying(admitted, all_attributes), lines), p.first());
        if (made.label.empty())
            made.label = text(operation, p.first());
        for (const line &l : p.lines)
            made.bars.push_back({l.label, l.colour, summarize(l.entries.back()->point, m)->median});
    }
    if (chart.groups.empty())
        return {};
    return {{"interfaces", "The same work over each interface",
            format(static_cast<double>(size), unit::bytes) + ", one operation in flight on one connection",
            "Median latency, median of the repeats", std::move(chart)}};
}

} // namespace bench::report
