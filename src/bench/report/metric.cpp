// SPDX-License-Identifier: BSD-3-Clause
#include "metric.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>

namespace bench::report
{

namespace
{

template<int Thousandths>
std::optional<double> percentile_of(const repeat &r)
{
    return latency_at(r.all.latency, Thousandths / 1000.0);
}

// Processor time of both ends for one operation.
std::optional<double> cpu_per_operation(const repeat &r)
{
    if (r.all.operations == 0 || !r.cpu_s.client)
        return std::nullopt;
    return (*r.cpu_s.client + r.cpu_s.server.value_or(0)) * 1e9 / static_cast<double>(r.all.operations);
}

// Processors kept busy by both ends together, in percent of one.
std::optional<double> cpu_busy(const repeat &r)
{
    if (!r.duration_s || *r.duration_s == 0 || !r.cpu_s.client)
        return std::nullopt;
    return (*r.cpu_s.client + r.cpu_s.server.value_or(0)) * 100 / *r.duration_s;
}

constexpr std::array metrics = {
        metric{"latency_p50", "median latency", unit::time_ns, true, percentile_of<50000>},
        metric{"latency_p90", "90th percentile of latency", unit::time_ns, true, percentile_of<90000>},
        metric{"latency_p99", "99th percentile of latency", unit::time_ns, true, percentile_of<99000>},
        metric{"latency_p99_9", "99.9th percentile of latency", unit::time_ns, true, percentile_of<99900>},
        metric{"latency_p99_99", "99.99th percentile of latency", unit::time_ns, true, percentile_of<99990>},
        metric{"latency_p99_999", "99.999th percentile of latency", unit::time_ns, true, percentile_of<99999>},
        metric{"latency_min", "lowest latency", unit::time_ns, true,
                [](const repeat &r) { return r.all.latency.min_ns; }},
        metric{"latency_mean", "mean latency", unit::time_ns, true,
                [](const repeat &r) { return r.all.latency.mean_ns; }},
        metric{"latency_max", "highest latency", unit::time_ns, true,
                [](const repeat &r) { return r.all.latency.max_ns; }},
        metric{"latency_stddev", "standard deviation of latency", unit::time_ns, true,
                [](const repeat &r) { return r.all.latency.stddev_ns; }},
        metric{"ops_per_s", "operations per second", unit::per_s, false,
                [](const repeat &r) { return r.all.ops_per_s; }},
        metric{"bytes_per_s", "bandwidth", unit::bytes_per_s, false, [](const repeat &r) { return r.all.bytes_per_s; }},
        metric{"cpu_per_op", "processor time per operation", unit::time_ns, true, cpu_per_operation},
        metric{"cpu_busy", "processors busy, both ends", unit::percent, true, cpu_busy},
        metric{"memory_client", "client's memory per connection", unit::bytes, true,
                [](const repeat &r) { return r.memory_per_connection_bytes.client; }},
        metric{"memory_server", "server's memory per connection", unit::bytes, true,
                [](const repeat &r) { return r.memory_per_connection_bytes.server; }},
};

} // namespace

std::span<const metric> all_metrics()
{
    return metrics;
}

const metric *find_metric(const std::string &key)
{
    const auto found = std::ranges::find(metrics, key, &metric::key);
    return found == metrics.end() ? nullptr : &*found;
}

const metric &metric_of(const std::string &key)
{
    const metric *found = find_metric(key);
    if (!found)
        throw std::logic_error("no metric " + key);
    return *found;
}

std::optional<summary> summarize(const point &p, const metric &m)
{
    std::vector<double> values;
    for (const repeat &r : p.repeats) {
        if (const auto value = m.of(r))
            values.push_back(*value);
    }
    if (values.empty() || values.size() < p.repeats.size())
        return std::nullopt;
    const auto [low, high] = std::ranges::minmax(values);
    return summary{median_of(values), low, high};
}

std::optional<double> latency_at(const latency &l, double rank)
{
    const auto found = std::ranges::find(l.percentiles, rank, &percentile::rank);
    if (found == l.percentiles.end())
        return std::nullopt;
    return found->ns;
}

double median_of(std::vector<double> values)
{
    const std::size_t half = values.size() / 2;
    std::ranges::sort(values);
    return values.size() % 2 ? values.at(half) : (values.at(half - 1) + values.at(half)) / 2;
}

} // namespace bench::report
