// SPDX-License-Identifier: BSD-3-Clause
#include "results.hpp"

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "failure.hpp"

namespace bench
{

namespace
{

using json = nlohmann::json;

template<class E>
constexpr std::array<const char *, 0> words{};
template<>
constexpr std::array words<api> = {"librpma", "verbs", "tcp", "memcpy"};
template<>
constexpr std::array words<flush_kind> = {"none", "visibility", "persistent"};
template<>
constexpr std::array words<polling> = {"busy", "event"};
template<>
constexpr std::array words<access> = {"sequential", "random"};

template<class T>
json optional(const std::optional<T> &value)
{
    return value ? json(*value) : json(nullptr);
}

json both(const both_ends &value)
{
    return {{"client", optional(value.client)}, {"server", optional(value.server)}};
}

json object(const latency &l)
{
    json percentiles = json::array(), histogram = json::array();
    for (const percentile &p : l.percentiles)
        percentiles.push_back({p.rank, p.ns});
    for (const bucket &b : l.histogram)
        histogram.push_back(json::array({b.ns, b.count}));
    return {{"min", optional(l.min_ns)}, {"mean", optional(l.mean_ns)}, {"max", optional(l.max_ns)},
            {"stddev", optional(l.stddev_ns)}, {"percentiles", percentiles}, {"histogram", histogram}};
}

template<class E>
void read_word(const json &from, const char *name, E &to)
{
    const auto word = from.at(name).get<std::string>();
    const auto found = std::ranges::find(words<E>, word);
    if (found == words<E>.end())
        throw failure(std::string(name) + ": unknown word '" + word + "'", exit_usage);
    to = static_cast<E>(found - words<E>.begin());
}

} // namespace

void to_json(json &j, const measure &m)
{
    j = {{"operations", m.operations}, {"ops_per_s", optional(m.ops_per_s)}, {"bytes_per_s", optional(m.bytes_per_s)},
            {"latency_ns", object(m.latency)}};
}

void to_json(json &j, const repeat &r)
{
    j = r.all;
    j.update({{"duration_s", optional(r.duration_s)}, {"reads", optional(r.reads)}, {"writes", optional(r.writes)},
            {"cpu_s", both(r.cpu_s)}, {"memory_per_connection_bytes", both(r.memory_per_connection_bytes)},
            {"verified", optional(r.verified)}});
}

void to_json(json &j, const host &h)
{
    j = {{"cpu", h.cpu}, {"cores", optional(h.cores)}, {"memory_bytes", optional(h.memory_bytes)}, {"os", h.os},
            {"kernel", h.kernel}, {"governor", h.governor}, {"load", optional(h.load)}};
}

void to_json(json &j, const library &l)
{
    j = {{"file", l.file}, {"version", l.version}};
}

void from_json(const json &j, setup &s)
{
    j.at("workload").get_to(s.workload);
    read_word(j, "api", s.api);
    const json &from = j.at("parameters");
    parameters &p = s.parameters;
    from.at("block_size").get_to(p.block_size);
    from.at("depth").get_to(p.depth);
    from.at("connections").get_to(p.connections);
    from.at("threads").get_to(p.threads);
    read_word(from, "flush", p.flush);
    from.at("flush_interval").get_to(p.flush_interval);
    read_word(from, "polling", p.polling);
    read_word(from, "access", p.access);
    if (const auto percent = from.find("read_percent"); percent != from.end() && !percent->is_null())
        p.read_percent = percent->get<std::uint32_t>();
    from.at("cpu_load").get_to(p.cpu_load);
    from.at("target").get_to(p.target);
}

} // namespace bench
