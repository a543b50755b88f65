// SPDX-License-Identifier: BSD-3-Clause
#include "line_figures.hpp"
#include "grouping.hpp"
#include "metric.hpp"

#include <algorithm>
#include <map>

namespace bench::report
{

namespace
{

// A kind of figure. There is one for each way the other attributes are combined.
struct selection {
    const char *group;
    const char *title;
    const char *metric;
    const char *tail;         // a metric for a companion line, or NULL
    std::vector<attribute> x; // the axis, and what changes along with it
    bool (*admits)(const entry &);
    std::vector<attribute> lines;
    std::vector<attribute> contrasts; // a figure in which none of these varies is left out; empty: all are drawn
};

bool ours(const entry &e)
{
    return e.setup().api == api::librpma && e.half.empty();
}

bool whole_at_rest(const entry &e)
{
    return e.half.empty() && at_rest(e.parameters());
}

bool ours_at_rest(const entry &e)
{
    return ours(e) && at_rest(e.parameters());
}

bool ours_on_one_connection(const entry &e)
{
    const parameters &p = e.parameters();
    return ours(e) && p.connections == 1 && p.threads == 1 && p.cpu_load == 0;
}

bool one_connection(const entry &e)
{
    const parameters &p = e.parameters();
    return e.half.empty() && p.connections == 1 && p.threads == 1 && p.cpu_load == 0;
}

bool ours_of_one_thread(const entry &e)
{
    return ours(e) && e.parameters().cpu_load == 0 && e.parameters().threads == 1;
}

// Each thread has its connection: a curve over threads is not one over connections.
bool ours_of_threads(const entry &e)
{
    return ours(e) && e.parameters().cpu_load == 0 && e.parameters().threads == e.parameters().connections;
}

bool mix_or_its_parts(const entry &e)
{
    const std::string &w = e.setup().workload;
    return e.setup().api == api::librpma && (!e.half.empty() || w == "read" || w == "write_flush");
}

bool ours_on_an_idle_target(const entry &e)
{
    return ours(e) && e.parameters().cpu_load == 0;
}

bool mixed(const entry &e)
{
    return e.setup().api == api::librpma && e.parameters().read_percent.has_value();
}

bool read_or_flushed(const entry &e)
{
    const std::string &w = e.setup().workload;
    return ours_on_one_connection(e) && e.parameters().flush_interval == 1 && (w == "read" || w == "write_flush");
}

bool read_or_flushed_at_rest(const entry &e)
{
    return read_or_flushed(e) && at_rest(e.parameters());
}

bool flushed_to_persistence(const entry &e)
{
    return e.half.empty() && (e.setup().workload == "gpspm" || e.parameters().flush == flush_kind::persistent);
}

const std::vector<selection> &selections()
{
    using enum attribute;
    static const std::vector<attribute> operations = {operation, mixture, library, run};
    static const std::vector<attribute> interfaces = {api, polling, library, run};
    static const std::vector<attribute> sides = {api, library, run};
    static const std::vector<attribute> servers = {operation, mixture, polling, library, run};
    static const std::vector<attribute> memories = {target, operation, library, run};
    static const std::vector<selection> list = {
            {"latency", "Median latency of each operation", "latency_p50", nullptr, {block_size}, ours_at_rest,
                    operations, {}},
            {"latency", "Latency side by side", "latency_p50", "latency_p99", {block_size}, whole_at_rest, interfaces,
                    sides},
            {"bandwidth", "Bandwidth of each operation", "bytes_per_s", nullptr, {block_size}, ours_on_one_connection,
                    operations, {}},
            {"bandwidth", "Bandwidth side by side", "bytes_per_s", nullptr, {block_size}, one_connection, interfaces,
                    sides},
            {"bandwidth", "Operations per second over depth", "ops_per_s", nullptr, {depth}, ours_on_one_connection,
                    operations, {}},
            {"bandwidth", "Latency over depth", "latency_p50", "latency_p99", {depth}, ours_on_one_connection,
                    operations, {}},
            {"bandwidth", "Operations per second over the flush interval", "ops_per_s", nullptr, {flush_interval},
                    ours_on_one_connection, operations, {}},
            {"scaling", "Operations per second over connections", "ops_per_s", nullptr, {connections},
                    ours_of_one_thread, operations, {}},
            {"scaling", "Latency over connections", "latency_p50", "latency_p99", {connections}, ours_of_one_thread,
                    operations, {}},
            {"scaling", "Processor time per operation over connections", "cpu_per_op", nullptr, {connections},
                    ours_of_one_thread, operations, {}},
            {"scaling", "Server's memory per connection", "memory_server", nullptr, {connections}, ours_of_one_thread,
                    operations, {}},
            {"scaling", "Operations per second over threads", "ops_per_s", nullptr, {threads}, ours_on_an_idle_target,
                    operations, {}},
            {"scaling", "Operations per second over threads of one connection each", "ops_per_s", nullptr,
                    {threads, connections}, ours_of_threads, operations, {}},
            {"scaling", "Bandwidth over threads of one connection each", "bytes_per_s", nullptr, {threads, connections},
                    ours_of_threads, operations, {}},
            {"cpuload", "Latency over the target's load", "latency_p50", "latency_p99", {cpu_load}, ours, servers, {}},
            {"cpuload", "Bandwidth over the target's load", "bytes_per_s", nullptr, {cpu_load}, ours, servers, {}},
            {"mix", "Latency of a mix and of its parts alone", "latency_mean", nullptr, {block_size}, mix_or_its_parts,
                    operations, {operation}},
            {"mix", "Bandwidth of a mix and of its parts alone", "bytes_per_s", nullptr, {block_size}, mix_or_its_parts,
                    operations, {operation}},
            {"mix", "Latency over the share of reads", "latency_mean", nullptr, {mixture}, mixed,
                    {operation, library, run}, {}},
            {"mix", "Operations per second over the share of reads", "ops_per_s", nullptr, {mixture}, mixed,
                    {operation, library, run}, {}},
            {"dram-pmem", "Latency by the target's memory", "latency_p50", "latency_p99", {block_size},
                    read_or_flushed_at_rest, memories, {target}},
            {"dram-pmem", "Bandwidth by the target's memory", "bytes_per_s", nullptr, {block_size}, read_or_flushed,
                    memories, {target}},
            {"apm-gpspm", "Latency of flushing by the initiator (APM) and by the target (GPSPM)", "latency_p50",
                    "latency_p99", {block_size}, flushed_to_persistence, servers, {operation}},
            {"apm-gpspm", "Bandwidth of APM and of GPSPM", "bytes_per_s", nullptr, {block_size}, flushed_to_persistence,
                    servers, {operation}},
    };
    return list;
}

bool contrasting(const panel &p, const std::vector<attribute> &contrasts)
{
    if (contrasts.empty())
        return true;
    entry_list measured;
    for (const line &l : p.lines) {
        const auto found = std::ranges::find_if(l.entries, [](const entry *e) { return !e->point.repeats.empty(); });
        if (found != l.entries.end())
            measured.push_back(*found);
    }
    return !measured.empty() && std::ranges::any_of(contrasts, [&](attribute a) { return varies(a, measured); });
}

// A mix without its halves is no figure of the mix.
bool has_what_its_group_is_about(const panel &p, const std::string &group)
{
    return group != "mix" ||
           std::ranges::any_of(p.lines, [](const line &l) { return !l.entries.front()->half.empty(); });
}

series series_of(const line &l, attribute x, const metric &m)
{
    series made = {l.label, l.colour, false, {}, {}};
    std::map<double, datum> values;
    for (const entry *e : l.entries) {
        const double at = number(x, *e);
        if (const auto s = summarize(e->point, m))
            values[at] = {at, s->median, s->low, s->high};
        else if (e->point.status != status::done)
            made.failed.push_back(at);
    }
    for (const auto &[at, d] : values)
        made.data.push_back(d);
    std::erase_if(made.failed, [&](double at) { return values.contains(at); });
    return made;
}

// Old results have means only.
const metric &metric_in(const entry_list &entries, const std::string &wanted)
{
    const metric &m = metric_of(wanted);
    const bool there = std::ranges::any_of(entries, [&](const entry *e) { return summarize(e->point, m).has_value(); });
    return there || wanted != "latency_p50" ? m : metric_of("latency_mean");
}

axis x_axis(attribute x)
{
    if (x == attribute::cpu_load || x == attribute::mixture)
        return {name(x), unit::percent, scale::linear, ""};
    return {name(x), x == attribute::block_size ? unit::bytes : unit::none, scale::log2, noun(x)};
}

bool is_a_curve(const line_chart &chart, std::size_t least)
{
    return std::ranges::any_of(chart.lines, [&](const series &line) { return line.data.size() >= least; });
}

line_chart chart_of(const selection &s, const panel &p, const metric &m)
{
    line_chart chart = {x_axis(s.x.front()), {m.name, m.measured_in, scale::log10, ""}, {}};
    chart.y.label += m.lower_is_better ? " (lower is better)" : " (higher is better)";
    for (const line &l : p.lines) {
        series main = series_of(l, s.x.front(), m);
        if (main.data.empty())
            continue;
        chart.lines.push_back(std::move(main));
        if (!s.tail)
            continue;
        series tail = series_of(l, s.x.front(), metric_of(s.tail));
        tail.tail = true;
        tail.failed.clear();
        if (!tail.data.empty())
            chart.lines.push_back(std::move(tail));
    }
    // Beside curves, a single point only stretches the axes; the tables have it.
    if (is_a_curve(chart, 2))
        std::erase_if(chart.lines, [](const series &line) { return line.data.size() < 2 && line.failed.empty(); });
    return chart;
}

// Where there are real curves, two points of something else are no figure of their own.
void drop_stubs(std::vector<panel> &panels, const selection &s, const metric &m)
{
    constexpr std::size_t real = 3;
    const auto stub = [&](const panel &p) { return !is_a_curve(chart_of(s, p, m), real); };
    if (!std::ranges::all_of(panels, stub))
        std::erase_if(panels, stub);
}

void append(std::vector<figure> &figures, const selection &s, const entry_list &entries)
{
    const metric &m = metric_in(entries, s.metric);
    std::vector<panel> drawn;
    for (panel &p : group(entries, s.x, s.lines)) {
        const bool wanted = contrasting(p, s.contrasts) && has_what_its_group_is_about(p, s.group);
        if (wanted && is_a_curve(chart_of(s, p, m), s.x.size() + 1))
            drawn.push_back(std::move(p));
    }
    drop_stubs(drawn, s, m);
    describe(drawn);
    for (const panel &p : drawn) {
        line_chart chart = chart_of(s, p, m);
        const std::string title = p.distinction.empty() ? s.title : s.title + (": " + p.distinction);
        const bool tails = std::ranges::any_of(chart.lines, &series::tail);
        std::string caption = std::string("Median of the repeats; bars: lowest and highest repeat.") +
                              (tails ? " Dashed: 99th percentile." : "");
        figures.push_back({s.group, title, p.common, std::move(caption), std::move(chart)});
    }
}

} // namespace

std::vector<figure> line_figures(std::span<const entry> entries)
{
    std::vector<figure> figures;
    for (const selection &s : selections()) {
        entry_list admitted;
        for (const entry &e : entries) {
            if (s.admits(e))
                admitted.push_back(&e);
        }
        if (!admitted.empty())
            append(figures, s, admitted);
    }
    return figures;
}

} // namespace bench::report
