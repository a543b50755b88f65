// SPDX-License-Identifier: BSD-3-Clause
#include "table.hpp"
#include "metric.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <set>

namespace bench::report
{

namespace
{

cell text_cell(std::string text)
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
        std::vector<cell> row = {rank ? cell{fmt::format("{:.6g} %", x), x, true} : value(x, chart.x.measured_in)};
        for (const series &line : chart.lines) {
            const auto found = std::ranges::find(line.data, x, &datum::x);
            const bool failed = std::ranges::find(line.failed, x) != line.failed.end();
            row.push_back(found != line.data.end() ? value(found->y, chart.y.measured_in)
                          : failed                 ? cell{"failed", -1, true}
                                                   : nothing());
        }
        t.rows.push_back(std::move(row));
    }
    return t;
}

table bars_table(const bar_chart &chart)
{
    table t = {{"operation", "interface", chart.values.label}, {}, ""};
    for (const bar_group &group : chart.groups) {
        for (const bar &b : group.bars)
            t.rows.push_back({text_cell(group.label), text_cell(b.label), value(b.value, chart.values.measured_in)});
    }
    return t;
}

table ratios_table(const ratio_chart &chart)
{
    table t = {{"measured", "median, " + chart.ours, "median, " + chart.other, "median of the ratios", "from", "to",
                       "verdict"},
            {}, ""};
    for (const ratio_row &r : chart.rows)
        t.rows.push_back({text_cell(r.label), text_cell(r.ours), text_cell(r.other), value(r.ratio, unit::ratio),
                value(r.low, unit::ratio), value(r.high, unit::ratio), text_cell(verdict_of(r))});
    return t;
}

bool same_in_all_rows(const table &t, std::size_t column)
{
    return std::ranges::all_of(
            t.rows, [&](const std::vector<cell> &row) { return row[column].text == t.rows.front()[column].text; });
}

void drop_column(table &t, std::size_t column)
{
    const auto at = static_cast<std::ptrdiff_t>(column);
    t.head.erase(t.head.begin() + at);
    for (auto &row : t.rows)
        row.erase(row.begin() + at);
}

// What all points have in common is said once, and what none has not at all.
void drop_columns_that_say_nothing(table &t, const std::vector<std::string> &sayable)
{
    for (std::size_t column = t.head.size(); column-- > 0 && t.rows.size() > 1;) {
        if (!same_in_all_rows(t, column))
            continue;
        const std::string text = t.rows.front()[column].text;
        const bool empty = text.empty() || text == nothing().text;
        const bool said = std::ranges::find(sayable, t.head[column]) != sayable.end();
        if (said && !empty)
            t.common = text + (t.common.empty() ? "" : ", ") + t.common;
        if (said || empty)
            drop_column(t, column);
    }
}

cell verified(const entry &e)
{
    const auto &repeats = e.point.repeats;
    if (e.point.status != status::done)
        return text_cell(to_word(e.point.status));
    const bool known =
            !repeats.empty() && std::ranges::all_of(repeats, [](const repeat &r) { return r.verified.has_value(); });
    if (!known)
        return text_cell("");
    return text_cell(std::ranges::all_of(repeats, [](const repeat &r) { return *r.verified; }) ? "yes" : "NO");
}

std::string memory(const std::optional<std::uint64_t> &bytes)
{
    return bytes ? format(static_cast<double>(*bytes), unit::bytes) : "";
}

void host_rows(table &t, const environment &e)
{
    const auto row = [&](const char *name, const std::string &client, const std::string &server) {
        if (!client.empty() || !server.empty())
            t.rows.push_back(
                    {text_cell(name), text_cell(client), text_cell(e.same_host && server.empty() ? client : server)});
    };
    const auto count = [](const auto &number) {
        return number ? fmt::format("{:.3g}", static_cast<double>(*number)) : "";
    };
    row("processor", e.client.cpu, e.server.cpu);
    row("processors", count(e.client.cores), count(e.server.cores));
    row("memory", memory(e.client.memory_bytes), memory(e.server.memory_bytes));
    row("system", e.client.os, e.server.os);
    row("kernel", e.client.kernel, e.server.kernel);
    row("frequency governor", e.client.governor, e.server.governor);
    row("load at the start", count(e.client.load), count(e.server.load));
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
    table t = {{"operation", "mix", "interface", "library", "run", "block", "depth", "connections", "threads", "access",
                       "polling", "target", "flush", "CPU load"},
            {}, ""};
    const char *const columns[] = {"latency_p50", "latency_mean", "latency_p99", "latency_p99_9", "ops_per_s",
            "bytes_per_s", "cpu_per_op", "memory_server"};
    for (const char *heading : {"median", "mean", "99 %", "99.9 %", "operations", "bandwidth", "CPU per operation",
                 "memory per connection", "verified"})
        t.head.push_back(heading);
    for (const entry &e : entries) {
        const parameters &p = e.parameters();
        std::vector<cell> row;
        for (const attribute a :
                {attribute::operation, attribute::mixture, attribute::api, attribute::library, attribute::run})
            row.push_back(text_cell(text(a, e)));
        row.push_back(p.block_size == 0 ? nothing() : value(static_cast<double>(p.block_size), unit::bytes));
        for (const std::uint32_t number : {p.depth, p.connections, p.threads})
            row.push_back(value(number, unit::none));
        for (const attribute a : {attribute::access, attribute::polling, attribute::target, attribute::flush_interval,
                     attribute::cpu_load})
            row.push_back(text_cell(text(a, e)));
        for (const char *key : columns) {
            const metric &m = metric_of(key);
            const auto s = summarize(e.point, m);
            row.push_back(s ? value(s->median, m.measured_in) : nothing());
        }
        row.push_back(verified(e));
        t.rows.push_back(std::move(row));
    }
    drop_columns_that_say_nothing(t, {"library", "run", "access", "polling", "target", "flush", "CPU load"});
    return t;
}

table environment_of(const results &r)
{
    const environment &e = r.environment;
    table t = {{"", "client", "server"}, {}, ""};
    host_rows(t, e);
    const auto shared = [&](const char *name, const std::string &text) {
        if (!text.empty())
            t.rows.push_back({text_cell(name), text_cell(text), text_cell("")});
    };
    shared("device", e.device);
    shared("transport", e.transport);
    shared("target memory", e.target_memory);
    shared("a persistent flush guarantees", e.persistence_level);
    shared("rdma-core", e.rdma_core);
    for (const library &l : r.libraries)
        shared(("library " + l.label).c_str(), l.version + (l.file.empty() ? "" : " (" + l.file + ")"));
    shared("measured with", e.tool);
    shared("profile", r.profile);
    shared("started", r.started);
    shared("took", r.duration_s > 0 ? format_duration(r.duration_s) : "");
    return t;
}

table missing(std::span<const entry> entries)
{
    table t = {{"operation", "interface", "conditions", "state", "reason"}, {}, ""};
    for (const entry &e : entries) {
        if (!e.half.empty() || e.point.status == status::done)
            continue;
        std::string conditions;
        for (const attribute a : {attribute::block_size, attribute::depth, attribute::connections, attribute::threads,
                     attribute::target, attribute::access, attribute::polling, attribute::cpu_load}) {
            const std::string word = text(a, e);
            conditions += (conditions.empty() || word.empty() ? "" : ", ") + word;
        }
        t.rows.push_back({text_cell(text(attribute::operation, e)), text_cell(text(attribute::api, e)),
                text_cell(conditions), text_cell(to_word(e.point.status)), text_cell(e.point.reason)});
    }
    return t;
}

} // namespace bench::report
