// SPDX-License-Identifier: BSD-3-Clause
#include "plan.hpp"

#include <algorithm>
#include <fmt/format.h>
#include <functional>

#include "engine/layout.hpp"
#include "failure.hpp"

namespace bench
{

namespace
{

constexpr std::uint64_t kibibyte = 1024;
constexpr double overhead_of_point_s = 0.3;
constexpr double usual_warm_up_s = 0.4;
constexpr double overhead_of_repeat_s = 0.1;

// What the workload has no use for gets its plain value, so that equal measurements have equal setups.
void normalize(setup &what)
{
    parameters &p = what.parameters;
    const workload kind = workload_from(what.workload);
    const bool flushes = kind == workload::write_flush || kind == workload::gpspm || kind == workload::aof ||
                         kind == workload::log_append || kind == workload::mix || kind == workload::atomic_write;
    if (!flushes)
        p.flush = flush_kind::none;
    else if (kind != workload::atomic_write && p.flush == flush_kind::none)
        p.flush = flush_kind::visibility;
    if (kind != workload::write_flush && kind != workload::rpmem_flush_drain)
        p.flush_interval = 1;
    if (is_replica(kind)) {
        p.depth = 1;
        p.polling = polling::busy;
    }
    if (kind != workload::mix)
        p.read_percent.reset();
    if (kind == workload::atomic_write)
        p.block_size = 8;
    if (kind == workload::connect) {
        p.block_size = 0;
        p.depth = 1;
        p.connections = p.threads;
    }
    if (what.api == api::librpma)
        what.library = "ours";
}

// Every setup with every value.
template<class T, class Set>
void multiply(std::vector<setup> &all, const std::vector<T> &values, Set set)
{
    std::vector<setup> product;
    for (const setup &one : all) {
        for (const T &value : values) {
            product.push_back(one);
            set(product.back(), value);
        }
    }
    all = std::move(product);
}

using setter = std::function<void(axes &)>;
const std::vector<std::pair<std::string, setter>> &sweeps()
{
    static const std::vector<std::pair<std::string, setter>> all = {
            {"block-size",
                    [](axes &a) {
                        a.block_sizes = {64, 256, 1024, 4096, 16384, 65536, 262144, 1048576};
                    }},
            {"depth",
                    [](axes &a) {
                        a.depths = {1, 2, 4, 8, 16, 32, 64, 128};
                    }},
            {"connections",
                    [](axes &a) {
                        a.connections = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512};
                    }},
            {"threads",
                    [](axes &a) {
                        a.threads = {1, 2, 4, 8};
                        a.connections = {8};
                    }},
            {"flush-interval",
                    [](axes &a) {
                        a.flush_intervals = {1, 2, 4, 8, 16, 32, 64};
                    }},
            {"read-percent",
                    [](axes &a) {
                        a.read_percents = {0, 10, 30, 50, 70, 90, 100};
                    }},
            {"cpu-load",
                    [](axes &a) {
                        a.cpu_loads = {0, 25, 50, 75, 90, 99};
                    }},
            {"polling",
                    [](axes &a) {
                        a.pollings = {polling::busy, polling::event};
                    }},
    };
    return all;
}

axes of(std::vector<std::string> workloads)
{
    axes a;
    a.workloads = std::move(workloads);
    return a;
}

const std::vector<api> every_api = {api::librpma, api::verbs, api::tcp, api::memcpy};
const std::vector<api> network_apis = {api::librpma, api::verbs, api::tcp};

// What a program asks of its replica: one range at a time, or 32 together.
std::vector<setup> replica_setups(std::vector<std::uint64_t> block_sizes)
{
    axes one = of({"rpmem_persist"});
    one.block_sizes = block_sizes;
    axes together = of({"rpmem_flush_drain"});
    together.block_sizes = std::move(block_sizes);
    together.flush_intervals = {32};
    std::vector<setup> all = expand(one);
    append(all, expand(together));
    return all;
}

std::vector<setup> quick_setups()
{
    std::vector<setup> all;
    axes sizes = of({"read", "write_flush"});
    sizes.apis = every_api;
    sizes.block_sizes = {64, 4 * kibibyte, 64 * kibibyte, 1024 * kibibyte};
    append(all, expand(sizes));

    axes messages = of({"send_recv", "write_with_imm", "gpspm", "aof", "log_append", "atomic_write"});
    messages.apis = {api::librpma, api::verbs};
    append(all, expand(messages));

    axes others = of({"mix", "connect"});
    append(all, expand(others));

    append(all, replica_setups({64, 4 * kibibyte}));

    axes durable = of({"write_flush", "gpspm", "aof", "log_append"});
    durable.flushes = {flush_kind::persistent};
    append(all, expand(durable));

    axes deep = of({"read", "write_flush"});
    deep.depths = {16};
    append(all, expand(deep));
    axes wide = of({"write_flush"});
    wide.connections = {4, 16};
    append(all, expand(wide));
    return all;
}

std::vector<setup> standard_setups()
{
    std::vector<setup> all;
    axes sizes = of({"read", "write_flush", "send_recv"});
    sizes.apis = every_api;
    sizes.block_sizes = {
            64, 256, kibibyte, 4 * kibibyte, 16 * kibibyte, 64 * kibibyte, 256 * kibibyte, 1024 * kibibyte};
    append(all, expand(sizes));

    axes others = of({"write_with_imm", "gpspm", "aof", "log_append", "atomic_write", "mix", "connect"});
    others.apis = every_api;
    append(all, expand(others));

    append(all, replica_setups({64, 4 * kibibyte, 64 * kibibyte, 1024 * kibibyte}));

    axes durable = of({"read", "write_flush", "gpspm", "aof", "log_append"});
    durable.flushes = {flush_kind::persistent};
    durable.memories = {planned_target};
    durable.block_sizes = {256, 4 * kibibyte, 64 * kibibyte};
    append(all, expand(durable));

    for (const char *const axis : {"depth", "connections", "threads"}) {
        axes work = of({"read", "write_flush", "send_recv"});
        append(all, plan_sweep(axis, work).setups);
    }
    axes load = of({"write_flush", "gpspm"});
    load.pollings = {polling::busy, polling::event};
    append(all, plan_sweep("cpu-load", load).setups);
    append(all, plan_sweep("flush-interval", of({"write_flush"})).setups);
    append(all, plan_sweep("read-percent", of({"mix"})).setups);
    return all;
}

std::vector<setup> full_setups()
{
    std::vector<setup> all = standard_setups();
    axes everything = of(workload_names());
    everything.apis = network_apis;
    everything.block_sizes = {64, 4 * kibibyte, 64 * kibibyte, 1024 * kibibyte};
    everything.depths = {1, 4, 16};
    everything.accesses = {access::sequential, access::random};
    everything.pollings = {polling::busy, polling::event};
    append(all, expand(everything));
    axes durable = of({"write_flush", "gpspm", "aof", "log_append", "mix", "atomic_write"});
    durable.flushes = {flush_kind::visibility, flush_kind::persistent};
    durable.memories = {"dram", planned_target};
    durable.block_sizes = {64, 256, kibibyte, 4 * kibibyte, 16 * kibibyte, 64 * kibibyte, 256 * kibibyte};
    append(all, expand(durable));
    return all;
}

} // namespace

std::vector<setup> expand(const axes &a)
{
    std::vector<setup> all(1);
    multiply(all, a.workloads, [](setup &s, const std::string &name) { s.workload = name; });
    multiply(all, a.connections, [](setup &s, std::uint32_t value) { s.parameters.connections = value; });
    multiply(all, a.threads, [](setup &s, std::uint32_t value) { s.parameters.threads = value; });
    multiply(all, a.depths, [](setup &s, std::uint32_t value) { s.parameters.depth = value; });
    multiply(all, a.block_sizes, [](setup &s, std::uint64_t value) { s.parameters.block_size = value; });
    multiply(all, a.flushes, [](setup &s, flush_kind value) {
        s.parameters.flush = value;
        s.parameters.target = value == flush_kind::persistent ? planned_target : "dram";
    });
    if (!a.memories.empty())
        multiply(all, a.memories, [](setup &s, const std::string &value) { s.parameters.target = value; });
    multiply(all, a.flush_intervals, [](setup &s, std::uint32_t value) { s.parameters.flush_interval = value; });
    multiply(all, a.pollings, [](setup &s, polling value) { s.parameters.polling = value; });
    multiply(all, a.accesses, [](setup &s, access value) { s.parameters.access = value; });
    multiply(all, a.read_percents, [](setup &s, std::uint32_t value) { s.parameters.read_percent = value; });
    multiply(all, a.cpu_loads, [](setup &s, std::uint32_t value) { s.parameters.cpu_load = value; });
    multiply(all, a.apis, [](setup &s, api value) { s.api = value; });

    std::vector<setup> distinct;
    for (setup &one : all) {
        check_setup(one);
        normalize(one);
        append(distinct, {one});
    }
    return distinct;
}

void append(std::vector<setup> &to, const std::vector<setup> &more)
{
    for (const setup &one : more) {
        if (std::ranges::find(to, one) == to.end())
            to.push_back(one);
    }
}

plan plan_profile(const std::string &name)
{
    if (name == "quick")
        return {name, quick_setups(), {2, 0.4, 0.6}};
    if (name == "standard")
        return {name, standard_setups(), {3, 1.5, 2}};
    if (name == "full")
        return {name, full_setups(), {5, 5, 5}};
    throw failure("unknown profile '" + name + "': choose quick, standard or full", exit_usage);
}

plan plan_sweep(const std::string &axis, const axes &fixed)
{
    for (const auto &[name, set] : sweeps()) {
        if (name == axis) {
            axes values = fixed;
            set(values);
            return {"sweep of " + axis, expand(values), {}};
        }
    }
    std::string known;
    for (const std::string &name : sweep_names())
        known += (known.empty() ? "" : ", ") + name;
    throw failure("unknown axis '" + axis + "': choose from " + known, exit_usage);
}

const std::vector<std::string> &sweep_names()
{
    static const std::vector<std::string> names = [] {
        std::vector<std::string> list;
        for (const auto &[name, set] : sweeps())
            list.push_back(name);
        return list;
    }();
    return names;
}

double estimate_s(std::size_t points, const timing &t)
{
    return static_cast<double>(points) * (overhead_of_point_s + std::min(usual_warm_up_s, t.warm_up_limit_s) +
                                                 t.repeats * (t.duration_s + overhead_of_repeat_s));
}

double left_s(std::size_t done, std::size_t points, double planned_s, double elapsed_s)
{
    const double plan = planned_s / static_cast<double>(std::max<std::size_t>(points, 1));
    const double pace = done == 0 ? plan : std::max(plan, elapsed_s / static_cast<double>(done));
    return pace * static_cast<double>(points - done);
}

} // namespace bench
