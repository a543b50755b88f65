// SPDX-License-Identifier: BSD-3-Clause
#include "ratio_figures.hpp"
#include "grouping.hpp"
#include "metric.hpp"
#include "percentile_figures.hpp"
#include "verdict.hpp"

#include <algorithm>
#include <optional>

namespace bench::report
{

namespace
{

// The attributes of a row that its neighbours do not share.
std::string row_label(const entry &e, const entry_list &all, std::optional<attribute> without = {})
{
    std::string label = text(attribute::operation, e);
    for (const attribute a : all_attributes) {
        const bool says_more =
                a != attribute::operation && a != attribute::api && a != attribute::library && a != without;
        const std::string word = says_more && varies(a, all) ? text(a, e) : "";
        label += word.empty() ? "" : ", " + word;
    }
    return label;
}

// More rows than this are told apart by operation.
constexpr std::size_t most_rows = 10;

struct labelled_row {
    std::string operation;
    ratio_row row;
};

void append(std::vector<figure> &figures, const figure &like, const std::vector<labelled_row> &rows)
{
    std::vector<std::string> operations = {""};
    if (rows.size() > most_rows) {
        operations.clear();
        for (const labelled_row &r : rows) {
            if (std::ranges::find(operations, r.operation) == operations.end())
                operations.push_back(r.operation);
        }
    }
    for (const std::string &operation : operations) {
        ratio_chart chart = std::get<ratio_chart>(like.chart);
        for (const labelled_row &r : rows) {
            if (!operation.empty() && operation != r.operation)
                continue;
            chart.rows.push_back(r.row);
            // The title says it.
            if (!operation.empty() && r.row.label.starts_with(operation + ", "))
                chart.rows.back().label.erase(0, operation.size() + 2);
        }
        figure made = like;
        made.title += operation.empty() ? "" : ": " + operation;
        made.chart = std::move(chart);
        figures.push_back(std::move(made));
    }
}

std::vector<figure> comparisons(const run &r)
{
    std::vector<entry> ours;
    for (const pair &p : r.data.pairs)
        ours.push_back({r.name, "", "", {p.ours, status::done, "", {}}});
    entry_list all;
    for (const entry &e : ours)
        all.push_back(&e);

    const bool judged = why_no_conclusion(r.data).empty();
    std::vector<figure> figures;
    for (const metric &m : all_metrics()) {
        std::vector<labelled_row> rows;
        ratio_chart sides;
        for (std::size_t i = 0; i < ours.size(); ++i) {
            const pair &p = r.data.pairs[i];
            if (p.metric != m.key)
                continue;
            sides = {side(p.ours), side(p.other), {}};
            rows.push_back({text(attribute::operation, ours[i]),
                    {row_label(ours[i], all), p.ratio, p.ratio_low, p.ratio_high, m.lower_is_better,
                            format(p.ours_value, m.measured_in), format(p.other_value, m.measured_in), judged}});
        }
        const figure like = {"compare", "Libraries compared: " + std::string(m.name),
                sides.ours + " divided by " + sides.other + ", runs in turns",
                judged ? "Dot: median of the ratios, run by run; line: their middle half. A line that touches 1 is no "
                         "difference."
                       : "No conclusion: " + why_no_conclusion(r.data) + ".",
                sides};
        if (!rows.empty())
            append(figures, like, rows);
    }
    return figures;
}

// Repeats in the order they were measured, so that what drifts with time divides out.
std::optional<ratio_row> divided(const entry &ours, const entry &other, const metric &m)
{
    std::vector<double> ratios;
    const std::size_t count = std::min(ours.point.repeats.size(), other.point.repeats.size());
    for (std::size_t i = 0; i < count; ++i) {
        const auto a = m.of(ours.point.repeats[i]), b = m.of(other.point.repeats[i]);
        if (a && b && *b > 0)
            ratios.push_back(*a / *b);
    }
    if (ratios.empty())
        return std::nullopt;
    const auto [low, high] = std::ranges::minmax(ratios);
    return ratio_row{"", median_of(ratios), low, high, m.lower_is_better,
            format(summarize(ours.point, m)->median, m.measured_in),
            format(summarize(other.point, m)->median, m.measured_in)};
}

figure interfaces(std::span<const entry> entries)
{
    const metric &m = metric_of("latency_p50");
    const std::uint64_t size = usual_block_size(entries);
    entry_list admitted;
    for (const entry &e : entries) {
        const parameters &p = e.parameters();
        const bool usual = p.block_size == size && at_rest(p) && p.access == access::sequential;
        if (e.half.empty() && usual && summarize(e.point, m))
            admitted.push_back(&e);
    }
    bar_chart chart = {{m.name, m.measured_in, scale::linear, ""}, {}};
    std::string common;
    // A baseline may wait in another way than the library: its bar says so.
    const attribute lines[] = {attribute::api, attribute::polling, attribute::library, attribute::run};
    for (const panel &p : group(admitted, {}, lines)) {
        // Two ways of waiting are no two interfaces.
        entry_list measured;
        for (const line &l : p.lines)
            measured.push_back(l.entries.front());
        if (!varies(attribute::api, measured) && !varies(attribute::library, measured) &&
                !varies(attribute::run, measured))
            continue;
        bar_group &made = chart.groups.emplace_back();
        made.label = row_label(*p.lines.front().entries.front(), admitted, attribute::polling);
        for (const line &l : p.lines)
            made.bars.push_back({l.label, l.colour, summarize(l.entries.back()->point, m)->median});
        common = format(static_cast<double>(size), unit::bytes) + ", one operation in flight on one connection";
    }
    return {"interfaces", "The same work over each interface", common, "Median latency, median of the repeats.",
            std::move(chart)};
}

std::vector<labelled_row> rows_beside_verbs(std::span<const entry> entries, bool judged)
{
    std::vector<std::pair<const entry *, const entry *>> pairs;
    entry_list all;
    for (const entry &e : entries) {
        if (e.setup().api != api::librpma || !e.half.empty())
            continue;
        const auto other = std::ranges::find_if(entries, [&](const entry &o) {
            return o.setup().api == api::verbs && o.half.empty() && o.run == e.run &&
                   o.setup().workload == e.setup().workload && o.parameters() == e.parameters();
        });
        if (other != entries.end()) {
            pairs.emplace_back(&e, &*other);
            all.push_back(&e);
        }
    }
    std::vector<labelled_row> rows;
    for (const auto &[ours, other] : pairs) {
        if (auto row = divided(*ours, *other, metric_of("latency_p50"))) {
            row->judged = judged;
            row->label = row_label(*ours, all);
            rows.push_back({text(attribute::operation, *ours), std::move(*row)});
        }
    }
    return rows;
}

} // namespace

std::vector<ratio_row> beside_verbs(std::span<const entry> entries)
{
    std::vector<ratio_row> rows;
    for (labelled_row &r : rows_beside_verbs(entries, true))
        rows.push_back(std::move(r.row));
    return rows;
}

std::vector<figure> ratio_figures(std::span<const run> runs, std::span<const entry> entries)
{
    std::vector<figure> figures;
    for (const run &r : runs) {
        for (figure &f : comparisons(r))
            figures.push_back(std::move(f));
    }
    figure bars = interfaces(entries);
    if (!std::get<bar_chart>(bars.chart).groups.empty())
        figures.push_back(std::move(bars));
    const bool judged = std::ranges::all_of(runs, [](const run &r) { return why_no_conclusion(r.data).empty(); });
    const std::vector<labelled_row> rows = rows_beside_verbs(entries, judged);
    if (!rows.empty())
        append(figures,
                {"interfaces", "What the library costs beside raw verbs",
                        "librpma divided by raw verbs, median latency",
                        "Dot: median of the ratios, repeat by repeat; line: lowest to highest. A line that touches 1 "
                        "is "
                        "no difference.",
                        ratio_chart{"librpma", "raw verbs", {}}},
                rows);
    return figures;
}

} // namespace bench::report
