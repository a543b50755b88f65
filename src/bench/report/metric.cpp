// SPDX-License-Identifier: BSD-3-Clause
#include "metric.hpp"
#include "verdict.hpp"

#include <algorithm>
#include <stdexcept>

namespace bench::report
{

namespace
{

template<int Thousandths>
std::optional<double> percentile_of(const repeat &r)
{
    const auto &all = r.all.latency.percentiles;
    const auto found = std::ranges::find(all, Thousandths / 1000.0, &percentile::rank);
    return found == all.end() ? std::nullopt : std::optional(found->ns);
}

template<std::optional<double> latency::*Member>
std::optional<double> latency_of(const repeat &r)
{
    return r.all.latency.*Member;
}

// Processor time of both ends for each of so many, in nanoseconds.
std::optional<double> cpu_for(const repeat &r, double count)
{
    if (count == 0 || !r.cpu_s.client)
        return std::nullopt;
    return (*r.cpu_s.client + r.cpu_s.server.value_or(0)) * 1e9 / count;
}

constexpr metric metrics[] = {
        {"latency_p50", "median latency", unit::time_ns, true, percentile_of<50000>},
        {"latency_p90", "90th percentile of latency", unit::time_ns, true, percentile_of<90000>},
        {"latency_p99", "99th percentile of latency", unit::time_ns, true, percentile_of<99000>},
        {"latency_p99_9", "99.9th percentile of latency", unit::time_ns, true, percentile_of<99900>},
        {"latency_p99_99", "99.99th percentile of latency", unit::time_ns, true, percentile_of<99990>},
        {"latency_p99_999", "99.999th percentile of latency", unit::time_ns, true, percentile_of<99999>},
        {"latency_min", "lowest latency", unit::time_ns, true, latency_of<&latency::min_ns>},
        {"latency_mean", "mean latency", unit::time_ns, true, latency_of<&latency::mean_ns>},
        {"latency_max", "highest latency", unit::time_ns, true, latency_of<&latency::max_ns>},
        {"latency_stddev", "standard deviation of latency", unit::time_ns, true, latency_of<&latency::stddev_ns>},
        {"ops_per_s", "operations per second", unit::per_s, false, [](const repeat &r) { return r.all.ops_per_s; }},
        {"bytes_per_s", "bandwidth", unit::bytes_per_s, false, [](const repeat &r) { return r.all.bytes_per_s; }},
        {"cpu_per_op", "processor time per operation", unit::time_ns, true,
                [](const repeat &r) { return cpu_for(r, static_cast<double>(r.all.operations)); }},
        {"cpu_busy", "processors busy, both ends", unit::percent, true,
                [](const repeat &r) { return cpu_for(r, r.duration_s.value_or(0) * 1e7); }},
        {"memory_client", "client's memory per connection", unit::bytes, true,
                [](const repeat &r) { return r.memory_per_connection_bytes.client; }},
        {"memory_server", "server's memory per connection", unit::bytes, true,
                [](const repeat &r) { return r.memory_per_connection_bytes.server; }},
};

} // namespace

std::span<const metric> all_metrics()
{
    return metrics;
}

const metric &metric_of(std::string_view key)
{
    const auto found = std::ranges::find(metrics, key, &metric::key);
    if (found == std::end(metrics))
        throw std::logic_error("no metric " + std::string(key));
    return *found;
}

summary summarize(const std::vector<double> &values)
{
    const auto [low, high] = std::ranges::minmax(values);
    return {quantile(values, 0.5), low, high};
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
    return summarize(values);
}

} // namespace bench::report
