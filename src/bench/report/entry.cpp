// SPDX-License-Identifier: BSD-3-Clause
#include "entry.hpp"

#include <cmath>
#include <map>
#include <set>
#include <stdexcept>

namespace bench::report
{

namespace
{

std::string operation(const entry &e)
{
    static const std::map<std::string, std::string> names = {{"write_flush", "write + flush"}, {"gpspm", "GPSPM"},
            {"aof", "AoF"}, {"send_recv", "send/receive"}, {"write_with_imm", "write with immediate"},
            {"atomic_write", "atomic write"}, {"log_append", "log append"},
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
    const char *const names[] = {"librpma", "raw verbs", "plain TCP", "memcpy"};
    return names[static_cast<std::size_t>(value)];
}

std::string target_name(const std::string &target)
{
    return target == "dram" ? "DRAM" : target == "pmem" ? "PMem" : target;
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

} // namespace

std::vector<entry> entries_of(std::span<const run> runs)
{
    std::set<std::string> libraries;
    for (const run &r : runs) {
        for (const point &p : r.data.points) {
            if (p.setup.api == api::librpma)
                libraries.insert(p.setup.library);
        }
    }
    std::vector<entry> entries;
    for (const run &r : runs) {
        for (const point &p : r.data.points) {
            const entry whole = {r.name, "", libraries.size() > 1 ? p.setup.library : "", p};
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

std::string texts(std::span<const attribute> attributes, const entry &e)
{
    std::string joined;
    for (const attribute a : attributes) {
        const std::string one = text(a, e);
        joined += (joined.empty() || one.empty() ? "" : ", ") + one;
    }
    return joined;
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

const char *name(attribute a)
{
    const char *const names[] = {"operation", "share of reads", "interface", "library", "run", "target", "access",
            "polling", "writes for each flush", "load of the target's processors", "block size",
            "depth: operations in flight", "connections", "client's threads"};
    return names[static_cast<std::size_t>(a)];
}

std::string side(const setup &s)
{
    return s.library.empty() ? api_name(s.api) : s.library;
}

bool at_rest(const parameters &p)
{
    return p.depth == 1 && p.connections == 1 && p.threads == 1 && p.cpu_load == 0;
}

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

} // namespace bench::report
