// SPDX-License-Identifier: BSD-3-Clause
#include "percentile_figures.hpp"
#include "caption.hpp"
#include "grouping.hpp"
#include "metric.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace bench::report
{

namespace
{

// The repeats' histograms as one: highest latency of a bucket, operations in it.
std::map<double, std::uint64_t> histogram_of(const point &p)
{
    std::map<double, std::uint64_t> merged;
    for (const repeat &r : p.repeats) {
        for (const bucket &b : r.all.latency.histogram)
            if (b.count > 0)
                merged[b.ns] += b.count;
    }
    return merged;
}

std::vector<datum> curve_of_histogram(const std::map<double, std::uint64_t> &histogram)
{
    const auto total = std::accumulate(histogram.begin(), histogram.end(), std::uint64_t{0},
            [](std::uint64_t sum, const auto &bucket) { return sum + bucket.second; });
    std::vector<datum> curve;
    std::uint64_t below = 0;
    for (const auto &[ns, count] : histogram) {
        below += count;
        const double rank = 100.0 * static_cast<double>(below) / static_cast<double>(total);
        // The slowest operation of all stands at the last rank that the count can resolve.
        const double last = 100.0 * (1 - 0.5 / static_cast<double>(total));
        curve.push_back({std::min(rank, last), ns, ns, ns});
    }
    // Steps closer than the eye can see only make the file larger.
    std::vector<datum> seen;
    for (const datum &d : curve) {
        const auto place = [](const datum &at) { return -std::log10(1 - at.x / 100); };
        if (seen.empty() || place(d) - place(seen.back()) >= 0.02 || &d == &curve.back())
            seen.push_back(d);
    }
    return seen;
}

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
        series curve = {l.label, l.colour, false, false, {}, {}};
        const point &last = l.entries.back()->point;
        const auto histogram = histogram_of(last);
        curve.smooth = !histogram.empty();
        curve.data = curve.smooth ? curve_of_histogram(histogram) : curve_of_percentiles(last);
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
        std::string caption = caption_of(chart, true);
        figures.push_back({"percentiles", title + distinction, p.common, std::move(caption), std::move(chart)});
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
