// SPDX-License-Identifier: BSD-3-Clause
#include "table.hpp"
#include "grouping.hpp"
#include "metric.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <set>

namespace bench::report
{

namespace
{

cell words(std::string text)
{
    return {std::move(text), 0, false};
}

cell value(double number, unit u)
{
    return {format(number, u), number, true};
}

cell nothing()
{
    return {"–", -1, true};
}

table lines_table(const line_chart &chart)
{
    std::set<double> xs;
    table t = {{chart.x.label}, {}, ""};
    for (const series &line : chart.lines) {
        t.head.push_back(line.label + (line.tail ? ", 99th percentile" : ""));
        for (const datum &d : line.data)
            xs.insert(d.x);
        xs.insert(line.failed.begin(), line.failed.end());
    }
    for (const double x : xs) {
        const bool rank = chart.x.how == scale::nines;
        auto &row = t.rows.emplace_back();
        row.push_back(rank ? cell{fmt::format("{:.6g} %", x), x, true} : value(x, chart.x.measured_in));
        for (const series &line : chart.lines) {
            const auto found = std::ranges::find(line.data, x, &datum::x);
            const bool failed = std::ranges::find(line.failed, x) != line.failed.end();
            row.push_back(found != line.data.end() ? value(found->y, chart.y.measured_in)
                          : failed                 ? cell{"failed", -1, true}
                                                   : nothing());
        }
    }
    return t;
}

table bars_table(const bar_chart &chart)
{
    table t = {{"operation", "interface", chart.values.label}, {}, ""};
    for (const bar_group &group : chart.groups) {
        for (const bar &b : group.bars)
            t.rows.push_back({words(group.label), words(b.label), value(b.value, chart.values.measured_in)});
    }
    return t;
}

table ratios_table(const ratio_chart &chart)
{
    table t = {{"measured", "median, " + chart.ours, "median, " + chart.other, "median of the ratios", "from", "to",
                       "verdict"},
            {}, ""};
    for (const ratio_row &r : chart.rows)
        t.rows.push_back({words(r.label), words(r.ours), words(r.other), value(r.ratio, unit::ratio),
                value(r.low, unit::ratio), value(r.high, unit::ratio), words(r.words)});
    return t;
}

cell attribute_cell(attribute a, const entry &e)
{
    switch (a) {
    case attribute::block_size:
        return e.parameters().block_size == 0 ? nothing() : value(number(a, e), unit::bytes);
    case attribute::depth:
    case attribute::connections:
    case attribute::threads:
        return value(number(a, e), unit::none);
    default:
        return words(text(a, e));
    }
}

cell verified(const entry &e)
{
    const auto &repeats = e.point.repeats;
    if (e.point.status != status::done)
        return words(to_word(e.point.status));
    if (repeats.empty() || !std::ranges::all_of(repeats, [](const repeat &r) { return r.verified.has_value(); }))
        return words("");
    return words(std::ranges::all_of(repeats, [](const repeat &r) { return *r.verified; }) ? "yes" : "NO");
}

} // namespace

table table_of(const figure &f)
{
    if (const auto *lines = std::get_if<line_chart>(&f.chart))
        return lines_table(*lines);
    if (const auto *bars = std::get_if<bar_chart>(&f.chart))
        return bars_table(*bars);
    return ratios_table(std::get<ratio_chart>(f.chart));
}

table table_of(std::span<const entry> entries)
{
    entry_list all;
    for (const entry &e : entries)
        all.push_back(&e);
    const attribute always[] = {attribute::operation, attribute::api, attribute::block_size};
    const std::vector<attribute> others = without(all_attributes, always), distinct = varying(all, others);
    std::vector<attribute> columns(std::begin(always), std::end(always));
    columns.insert(columns.end(), distinct.begin(), distinct.end());
    std::vector<std::pair<const char *, const char *>> metrics = {{"latency_p50", "median"}, {"latency_mean", "mean"},
            {"latency_p99", "99 %"}, {"latency_p99_9", "99.9 %"}, {"ops_per_s", "operations"},
            {"bytes_per_s", "bandwidth"}, {"cpu_per_op", "CPU per operation"},
            {"memory_server", "memory per connection"}};
    std::erase_if(metrics, [&](const auto &m) {
        return std::ranges::none_of(
                entries, [&](const entry &e) { return summarize(e.point, metric_of(m.first)).has_value(); });
    });

    table t;
    t.common = entries.empty() ? "" : texts(without(others, distinct), entries.front());
    for (const attribute a : columns)
        t.head.emplace_back(name(a));
    for (const auto &[key, heading] : metrics)
        t.head.emplace_back(heading);
    t.head.emplace_back("verified");
    for (const entry &e : entries) {
        auto &row = t.rows.emplace_back();
        for (const attribute a : columns)
            row.push_back(attribute_cell(a, e));
        for (const auto &[key, heading] : metrics) {
            const metric &m = metric_of(key);
            const auto s = summarize(e.point, m);
            row.push_back(s ? value(s->median, m.measured_in) : nothing());
        }
        row.push_back(verified(e));
    }
    return t;
}

table environment_of(const results &r)
{
    const environment &e = r.environment;
    table t = {{"", "client", "server"}, {}, ""};
    const auto row = [&](const std::string &name, const std::string &client, const std::string &server) {
        if (!client.empty() || !server.empty())
            t.rows.push_back({words(name), words(client), words(server)});
    };
    const auto count = [](const auto &n) { return n ? fmt::format("{:.3g}", static_cast<double>(*n)) : ""; };
    const auto memory = [](const auto &n) { return n ? format(static_cast<double>(*n), unit::bytes) : ""; };
    const host &client = e.client, &server = e.same_host && e.server.cpu.empty() ? e.client : e.server;
    row("processor", client.cpu, server.cpu);
    row("processors", count(client.cores), count(server.cores));
    row("memory", memory(client.memory_bytes), memory(server.memory_bytes));
    row("system", client.os, server.os);
    row("kernel", client.kernel, server.kernel);
    row("frequency governor", client.governor, server.governor);
    row("load at the start", count(client.load), count(server.load));
    row("device", e.device, "");
    row("transport", e.transport, "");
    row("target memory", "", e.target_memory);
    row("a persistent flush guarantees", "", e.persistence_level);
    row("rdma-core", e.rdma_core, "");
    for (const library &l : r.libraries)
        row("library " + l.label, l.version + (l.file.empty() ? "" : " (" + l.file + ")"), "");
    row("measured with", e.tool, "");
    row("profile", r.profile, "");
    row("started", r.started, "");
    row("took", r.duration_s > 0 ? format_duration(r.duration_s) : "", "");
    return t;
}

table missing(std::span<const entry> entries)
{
    table t = {{"operation", "interface", "conditions", "state", "reason"}, {}, ""};
    using enum attribute;
    const attribute conditions[] = {block_size, depth, connections, threads, target, access, polling, cpu_load};
    for (const entry &e : entries) {
        if (e.half.empty() && e.point.status != status::done)
            t.rows.push_back({words(text(operation, e)), words(text(api, e)), words(texts(conditions, e)),
                    words(to_word(e.point.status)), words(e.point.reason)});
    }
    return t;
}

} // namespace bench::report
