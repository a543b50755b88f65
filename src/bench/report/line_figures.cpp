// SPDX-License-Identifier: BSD-3-Clause
#include "figure.hpp"
#include "grouping.hpp"
#include "metric.hpp"

#include <algorithm>
#include <iterator>
#include <map>

namespace bench::report
{

namespace
{

// Which entries a figure takes in: all of these that are set have to hold.
enum filter : unsigned {
    ours = 1, // librpma
    idle = 2,
    one_thread = 4,
    one_connection = 8,
    shallow = 16,     // one operation in flight
    per_thread = 32,  // as many connections as threads: a curve over threads is not one over connections
    mixed = 64,       // a mix, or a half of one
    parts = 128,      // a half of a mix, or what a mix is made of
    plain = 256,      // read, or write with a flush each
    persistent = 512, // flushed to persistence, by whichever side
    usual_size = 1024,
    alone = idle | one_thread | one_connection,
    at_rest_all = alone | shallow
};

bool admits(unsigned f, const entry &e, std::uint64_t size)
{
    const parameters &p = e.parameters();
    const std::string &w = e.setup().workload;
    const bool read_or_flush = w == "read" || w == "write_flush", half = !e.half.empty();
    const std::pair<unsigned, bool> conditions[] = {{ours, e.setup().api == api::librpma}, {idle, p.cpu_load == 0},
            {one_thread, p.threads == 1}, {one_connection, p.connections == 1}, {shallow, p.depth == 1},
            {per_thread, p.threads == p.connections}, {mixed, p.read_percent.has_value()},
            {parts, half || read_or_flush}, {plain, p.flush_interval == 1 && read_or_flush},
            {persistent, w == "gpspm" || p.flush == flush_kind::persistent}, {usual_size, p.block_size == size}};
    return (!half || (f & (mixed | parts)) != 0) &&
           std::ranges::all_of(conditions, [f](const auto &c) { return (f & c.first) == 0 || c.second; });
}

// A kind of figure. There is one for each way the other attributes are combined.
struct selection {
    const char *group;
    const char *title;
    const char *metric;
    const char *tail;         // a metric for a companion line, or NULL
    std::vector<attribute> x; // the axis, and what changes along with it; none: the percentiles of latency
    unsigned filter;
    std::vector<attribute> lines;
    std::vector<attribute> contrasts; // a figure in which none of these varies is left out; empty: all are drawn
};

const std::vector<selection> &selections()
{
    using enum attribute;
    static const std::vector<attribute> operations = {operation, mixture, library, run};
    static const std::vector<attribute> interfaces = {api, polling, library, run};
    static const std::vector<attribute> sides = {api, library, run};
    static const std::vector<attribute> servers = {operation, mixture, polling, library, run};
    static const std::vector<attribute> memories = {target, operation, library, run};
    static const std::vector<attribute> mixes = {operation, library, run};
    constexpr const char *p50 = "latency_p50", *p99 = "latency_p99", *mean = "latency_mean", *rate = "ops_per_s",
                         *bytes = "bytes_per_s";
    static const std::vector<selection> all = {
            {"latency", "Median latency of each operation", p50, nullptr, {block_size}, ours | at_rest_all, operations,
                    {}},
            {"latency", "Latency side by side", p50, p99, {block_size}, at_rest_all, interfaces, sides},
            {"percentiles", "Latency by percentile", p50, nullptr, {}, ours | at_rest_all | usual_size, servers, {}},
            {"percentiles", "Latency by percentile side by side", p50, nullptr, {}, at_rest_all | usual_size,
                    interfaces, sides},
            {"bandwidth", "Bandwidth of each operation", bytes, nullptr, {block_size}, ours | alone, operations, {}},
            {"bandwidth", "Bandwidth side by side", bytes, nullptr, {block_size}, alone, interfaces, sides},
            {"bandwidth", "Operations per second over depth", rate, nullptr, {depth}, ours | alone, operations, {}},
            {"bandwidth", "Latency over depth", p50, p99, {depth}, ours | alone, operations, {}},
            {"bandwidth", "Operations per second over the flush interval", rate, nullptr, {flush_interval},
                    ours | alone, operations, {}},
            {"scaling", "Operations per second over connections", rate, nullptr, {connections},
                    ours | idle | one_thread, operations, {}},
            {"scaling", "Latency over connections", p50, p99, {connections}, ours | idle | one_thread, operations, {}},
            {"scaling", "Processor time per operation over connections", "cpu_per_op", nullptr, {connections},
                    ours | idle | one_thread, operations, {}},
            {"scaling", "Server's memory per connection", "memory_server", nullptr, {connections},
                    ours | idle | one_thread, operations, {}},
            {"scaling", "Operations per second over threads", rate, nullptr, {threads}, ours | idle, operations, {}},
            {"scaling", "Operations per second over threads of one connection each", rate, nullptr,
                    {threads, connections}, ours | idle | per_thread, operations, {}},
            {"dram-pmem", "Latency by the target's memory", p50, p99, {block_size}, ours | at_rest_all | plain,
                    memories, {target}},
            {"dram-pmem", "Bandwidth by the target's memory", bytes, nullptr, {block_size}, ours | alone | plain,
                    memories, {target}},
            {"apm-gpspm", "Latency of flushing by the initiator (APM) and by the target (GPSPM)", p50, p99,
                    {block_size}, persistent, servers, {operation}},
            {"apm-gpspm", "Bandwidth of APM and of GPSPM", bytes, nullptr, {block_size}, persistent, servers,
                    {operation}},
            {"mix", "Latency of a mix and of its parts alone", mean, nullptr, {block_size}, ours | parts, operations,
                    {operation}},
            {"mix", "Bandwidth of a mix and of its parts alone", bytes, nullptr, {block_size}, ours | parts, operations,
                    {operation}},
            {"mix", "Latency over the share of reads", mean, nullptr, {mixture}, ours | mixed, mixes, {}},
            {"mix", "Operations per second over the share of reads", rate, nullptr, {mixture}, ours | mixed, mixes, {}},
            {"cpuload", "Latency over the target's load", p50, p99, {cpu_load}, ours, servers, {}},
            {"cpuload", "Bandwidth over the target's load", bytes, nullptr, {cpu_load}, ours, servers, {}},
    };
    return all;
}

// Whether what was measured has what the figure is about; a mix without its halves is no figure of the mix.
bool has_contrast(const panel &p, const selection &s)
{
    entry_list measured;
    for (const line &l : p.lines)
        std::ranges::copy_if(
                l.entries, std::back_inserter(measured), [](const entry *e) { return !e->point.repeats.empty(); });
    const bool halves = std::ranges::any_of(measured, [](const entry *e) { return !e->half.empty(); });
    return (s.contrasts.empty() || !varying(measured, s.contrasts).empty()) && ((s.filter & parts) == 0 || halves);
}

std::vector<datum> percentiles_of(const point &p)
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
        const summary s = summarize(ns);
        curve.push_back({rank, s.median, s.low, s.high});
    }
    return curve;
}

series series_of(const line &l, const std::vector<attribute> &x, const metric &m, bool tail)
{
    series made = {l.label, l.colour, tail, {}, {}};
    if (x.empty()) {
        made.data = percentiles_of(l.entries.back()->point);
        return made;
    }
    std::map<double, datum> values;
    for (const entry *e : l.entries) {
        const double at = number(x.front(), *e);
        if (const auto s = summarize(e->point, m))
            values[at] = {at, s->median, s->low, s->high};
        else if (e->point.status != status::done && !tail)
            made.failed.push_back(at);
    }
    for (const auto &[at, d] : values)
        made.data.push_back(d);
    std::erase_if(made.failed, [&](double at) { return values.contains(at); });
    return made;
}

axis x_axis(const std::vector<attribute> &x)
{
    if (x.empty())
        return {"percentile of the operations", unit::percent, scale::nines};
    const attribute a = x.front();
    if (a == attribute::cpu_load || a == attribute::mixture)
        return {name(a), unit::percent, scale::linear};
    return {name(a), a == attribute::block_size ? unit::bytes : unit::none, scale::log2};
}

bool is_a_curve(const line_chart &chart, std::size_t least)
{
    return std::ranges::any_of(chart.lines, [&](const series &line) { return line.data.size() >= least; });
}

line_chart chart_of(const selection &s, const panel &p, const metric &m)
{
    const std::string better = m.lower_is_better ? " (lower is better)" : " (higher is better)";
    line_chart chart = {x_axis(s.x), {(s.x.empty() ? "latency" : m.name) + better, m.measured_in, scale::log10}, {}};
    for (const line &l : p.lines) {
        series main = series_of(l, s.x, m, false);
        if (main.data.empty())
            continue;
        chart.lines.push_back(std::move(main));
        if (!s.tail)
            continue;
        series tail = series_of(l, s.x, metric_of(s.tail), true);
        if (!tail.data.empty())
            chart.lines.push_back(std::move(tail));
    }
    // Beside curves, a single point only stretches the axes; the tables have it.
    if (is_a_curve(chart, 2))
        std::erase_if(chart.lines, [](const series &line) { return line.data.size() < 2 && line.failed.empty(); });
    return chart;
}

void append(std::vector<figure> &figures, const selection &s, const entry_list &entries)
{
    // Old results have means only.
    const auto has_it = [&](const entry *e) { return summarize(e->point, metric_of(s.metric)).has_value(); };
    const bool means = std::string(s.metric) == "latency_p50" && std::ranges::none_of(entries, has_it);
    const metric &m = metric_of(means ? "latency_mean" : s.metric);
    std::vector<panel> drawn;
    for (panel &p : group(entries, s.x, s.lines)) {
        if (has_contrast(p, s) && is_a_curve(chart_of(s, p, m), std::max<std::size_t>(s.x.size() + 1, 2)))
            drawn.push_back(std::move(p));
    }
    // Where there are real curves, two points of something else are no figure of their own.
    const auto stub = [&](const panel &p) { return !is_a_curve(chart_of(s, p, m), 3); };
    if (!std::ranges::all_of(drawn, stub))
        std::erase_if(drawn, stub);
    describe(drawn);
    for (const panel &p : drawn) {
        line_chart chart = chart_of(s, p, m);
        const bool tails = std::ranges::any_of(chart.lines, &series::tail);
        figures.push_back({s.group, p.distinction.empty() ? s.title : s.title + (": " + p.distinction), p.common,
                std::string("Median of the repeats; bars: lowest and highest") +
                        (tails ? "; dashed: 99th percentile" : ""),
                std::move(chart)});
    }
}

} // namespace

std::vector<figure> line_figures(std::span<const entry> entries)
{
    const std::uint64_t size = usual_block_size(entries);
    std::vector<figure> figures;
    for (const selection &s : selections()) {
        entry_list admitted;
        for (const entry &e : entries) {
            if (admits(s.filter, e, size))
                admitted.push_back(&e);
        }
        if (!admitted.empty())
            append(figures, s, admitted);
    }
    return figures;
}

} // namespace bench::report
