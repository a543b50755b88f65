// SPDX-License-Identifier: BSD-3-Clause
#include "percentile_figures.hpp"
#include "grouping.hpp"
#include "metric.hpp"

#include <algorithm>
#include <cmath>
#include <map>

namespace bench::report
{

namespace
{

std::vector<datum> curve_of_percentiles(const point &p)
{
    std::map<double, std::vector<double>> values;
    for (const repeat &r : p.repeats) {
        for (const percentile &one : r.all.latency.percentiles) {
            if (one.rank < 100)
                values[one.rank].push_back(one.ns);
        }
    }
    std::vector<datum> curve;
    for (const auto &[rank, ns] : values) {
        const auto [low, high] = std::ranges::minmax(ns);
        curve.push_back({rank, median_of(ns), low, high});
    }
    return curve;
}

line_chart chart_of(const panel &p)
{
    line_chart chart = {{"percentile of the operations", unit::percent, scale::nines, ""},
            {"latency (lower is better)", unit::time_ns, scale::log10, ""}, {}};
    for (const line &l : p.lines) {
        series curve = {l.label, l.colour, false, {}, {}};
        const point &last = l.entries.back()->point;
        curve.data = curve_of_percentiles(last);
        if (curve.data.size() >= 2)
            chart.lines.push_back(std::move(curve));
    }
    return chart;
}

void append(std::vector<figure> &figures, const entry_list &entries, std::span<const attribute> lines,
        const char *title, std::size_t least_lines)
{
    std::vector<panel> drawn;
    for (panel &p : group(entries, {}, lines)) {
        if (p.lines.size() >= least_lines && !chart_of(p).lines.empty())
            drawn.push_back(std::move(p));
    }
    describe(drawn);
    for (const panel &p : drawn) {
        line_chart chart = chart_of(p);
        const std::string distinction = p.distinction.empty() ? "" : ": " + p.distinction;
        figures.push_back({"percentiles", title + distinction, p.common,
                "Median of the repeats at each percentile; bars: lowest and highest repeat.", std::move(chart)});
    }
}

} // namespace

std::uint64_t usual_block_size(std::span<const entry> entries)
{
    std::uint64_t best = 0;
    const auto distance = [](std::uint64_t size) {
        return std::abs(std::log2(static_cast<double>(std::max<std::uint64_t>(size, 1))) - 12);
    };
    for (const entry &e : entries) {
        const std::uint64_t size = e.parameters().block_size;
        if (at_rest(e.parameters()) && (best == 0 || distance(size) < distance(best)))
            best = size;
    }
    return best;
}

std::vector<figure> percentile_figures(std::span<const entry> entries)
{
    using enum attribute;
    const std::uint64_t size = usual_block_size(entries);
    entry_list all, ours;
    for (const entry &e : entries) {
        if (!e.half.empty() || !at_rest(e.parameters()) || e.parameters().block_size != size)
            continue;
        all.push_back(&e);
        if (e.setup().api == api::librpma)
            ours.push_back(&e);
    }
    std::vector<figure> figures;
    const attribute operations[] = {operation, mixture, polling, library, run},
                    interfaces[] = {api, polling, library, run};
    append(figures, ours, operations, "Latency by percentile", 1);
    append(figures, all, interfaces, "Latency by percentile side by side", 2);
    return figures;
}

} // namespace bench::report
