// SPDX-License-Identifier: BSD-3-Clause
#include "entry.hpp"
#include "units.hpp"

#include <map>
#include <set>
#include <stdexcept>

namespace bench::report
{

namespace
{

std::string operation(const entry &e)
{
    static const std::map<std::string, std::string> names = {{"read", "read"}, {"write_flush", "write + flush"},
            {"gpspm", "GPSPM"}, {"aof", "AoF"}, {"send_recv", "send/receive"},
            {"write_with_imm", "write with immediate"}, {"atomic_write", "atomic write"}, {"log_append", "log append"},
            {"mix", "mix"}, {"connect", "connect"}, {"rpmem_persist", "rpmem_persist"},
            {"rpmem_flush_drain", "rpmem_flush + rpmem_drain"}};
    const auto found = names.find(e.setup().workload);
    std::string words = found == names.end() ? e.setup().workload : found->second;
    const parameters &p = e.parameters();
    if (e.setup().workload == "write_flush" && p.flush != flush_kind::none)
        words += std::string(" (") + to_word(p.flush) + ")";
    return e.half.empty() ? words : words + ", " + e.half;
}

std::string api_name(api value)
{
    switch (value) {
    case api::librpma:
        return "librpma";
    case api::verbs:
        return "raw verbs";
    case api::tcp:
        return "plain TCP";
    case api::memcpy:
        break;
    }
    return "memcpy";
}

std::string target_name(const std::string &target)
{
    if (target == "dram")
        return "DRAM";
    return target == "pmem" ? "PMem" : target;
}

entry half_of(const entry &whole, const char *half, std::optional<measure> repeat::*member)
{
    entry e = whole;
    e.half = half;
    for (repeat &r : e.point.repeats) {
        if (r.*member)
            r.all = *(r.*member);
    }
    return e;
}

std::size_t libraries_in(std::span<const run> runs)
{
    std::set<std::string> labels;
    for (const run &r : runs) {
        for (const point &p : r.data.points) {
            if (p.setup.api == api::librpma)
                labels.insert(p.setup.library);
        }
    }
    return labels.size();
}

} // namespace

std::vector<entry> entries_of(std::span<const run> runs)
{
    const bool several = libraries_in(runs) > 1;
    std::vector<entry> entries;
    for (const run &r : runs) {
        for (const point &p : r.data.points) {
            const entry whole = {r.name, "", several ? p.setup.library : "", p};
            entries.push_back(whole);
            if (!p.repeats.empty() && p.repeats.front().reads)
                entries.push_back(half_of(whole, "reads", &repeat::reads));
            if (!p.repeats.empty() && p.repeats.front().writes)
                entries.push_back(half_of(whole, "writes", &repeat::writes));
        }
    }
    return entries;
}

std::string text(attribute a, const entry &e)
{
    const parameters &p = e.parameters();
    switch (a) {
    case attribute::operation:
        return operation(e);
    case attribute::mixture:
        return p.read_percent ? std::to_string(*p.read_percent) + "/" + std::to_string(100 - *p.read_percent) : "";
    case attribute::api:
        return api_name(e.setup().api);
    case attribute::library:
        return e.library;
    case attribute::run:
        return e.run;
    case attribute::target:
        return target_name(p.target);
    case attribute::access:
        return to_word(p.access);
    case attribute::polling:
        return p.polling == polling::busy ? "busy polling" : "waiting for events";
    case attribute::flush_interval:
        return p.flush_interval == 1 ? "" : "a flush every " + std::to_string(p.flush_interval);
    case attribute::cpu_load:
        return p.cpu_load == 0 ? "" : std::to_string(p.cpu_load) + " % CPU load";
    case attribute::block_size:
        return p.block_size == 0 ? "" : format(static_cast<double>(p.block_size), unit::bytes);
    case attribute::depth:
        return "depth " + std::to_string(p.depth);
    case attribute::connections:
        return format_count(p.connections, "connection");
    case attribute::threads:
        return p.threads == 1 ? "" : format_count(p.threads, "thread");
    }
    throw std::logic_error("no such attribute");
}

double number(attribute a, const entry &e)
{
    const parameters &p = e.parameters();
    switch (a) {
    case attribute::mixture:
        return p.read_percent.value_or(0);
    case attribute::flush_interval:
        return p.flush_interval;
    case attribute::block_size:
        return static_cast<double>(p.block_size);
    case attribute::depth:
        return p.depth;
    case attribute::connections:
        return p.connections;
    case attribute::threads:
        return p.threads;
    case attribute::cpu_load:
        return p.cpu_load;
    default:
        throw std::logic_error("not a number");
    }
}

std::string name(attribute a)
{
    switch (a) {
    case attribute::mixture:
        return "share of reads";
    case attribute::flush_interval:
        return "writes for each flush";
    case attribute::block_size:
        return "block size";
    case attribute::depth:
        return "depth: operations in flight";
    case attribute::connections:
        return "connections";
    case attribute::threads:
        return "client's threads";
    case attribute::cpu_load:
        return "load of the target's processors";
    default:
        throw std::logic_error("not an axis");
    }
}

std::string noun(attribute a)
{
    switch (a) {
    case attribute::flush_interval:
        return "write";
    case attribute::connections:
        return "connection";
    case attribute::threads:
        return "thread";
    case attribute::depth:
        return "operation";
    default:
        return "";
    }
}

std::string side(const setup &s)
{
    return s.library.empty() ? api_name(s.api) : s.library;
}

bool at_rest(const parameters &p)
{
    return p.depth == 1 && p.connections == 1 && p.threads == 1 && p.cpu_load == 0;
}

} // namespace bench::report
