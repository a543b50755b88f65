// SPDX-License-Identifier: BSD-3-Clause
#include "layout.hpp"

#include <algorithm>
#include <fmt/format.h>

#include "failure.hpp"

namespace bench
{

namespace
{

constexpr std::size_t mebibyte = 1 << 20;
constexpr std::size_t max_slice_size = 4 * mebibyte;
constexpr std::size_t shared_by_slices = 64 * mebibyte;
constexpr std::size_t log_header = 64;
constexpr std::size_t request_slot = 64;

// Number of work requests of one operation that occupy the send queue until it completes.
std::uint32_t posts_of(workload kind, std::uint32_t flush_interval)
{
    switch (kind) {
    case workload::read:
    case workload::send_recv:
    case workload::write_with_imm:
        return 1;
    case workload::gpspm:
    case workload::aof:
    case workload::atomic_write:
    case workload::mix:
        return 2;
    case workload::log_append:
        return 4;
    case workload::write_flush:
        return flush_interval + 1;
    case workload::connect:
    case workload::rpmem_persist:
    case workload::rpmem_flush_drain:
        break;
    }
    return 1;
}

constexpr std::uint64_t max_block_size = 64 << 20;
constexpr std::uint32_t max_depth = 4096;
constexpr std::uint32_t max_connections = 4096;

void check_range(const char *name, std::uint64_t value, std::uint64_t low, std::uint64_t high)
{
    if (value < low || value > high)
        throw failure(fmt::format("{} {} is out of range ({} to {})", name, value, low, high), exit_usage);
}

} // namespace

const std::vector<std::string> &workload_names()
{
    static const std::vector<std::string> names = {"read", "write_flush", "gpspm", "aof", "send_recv", "write_with_imm",
            "atomic_write", "log_append", "mix", "connect", "rpmem_persist", "rpmem_flush_drain"};
    return names;
}

workload workload_from(const std::string &name)
{
    const auto &names = workload_names();
    const auto found = std::ranges::find(names, name);
    if (found != names.end())
        return static_cast<workload>(found - names.begin());
    std::string choices;
    for (const std::string &one : names)
        choices += (choices.empty() ? "" : ", ") + one;
    throw failure("unknown workload '" + name + "' (choose from " + choices + ")", exit_usage);
}

void check_setup(const setup &point_setup)
{
    const parameters &p = point_setup.parameters;
    if (workload_from(point_setup.workload) != workload::connect) {
        check_range("block size", p.block_size, 8, max_block_size);
        if (p.block_size % 8 != 0)
            throw failure(fmt::format("block size {} is not a multiple of 8", p.block_size), exit_usage);
    }
    check_range("depth", p.depth, 1, max_depth);
    check_range("connections", p.connections, 1, max_connections);
    check_range("threads", p.threads, 1, 256);
    check_range("flush interval", p.flush_interval, 1, 1024);
    check_range("CPU load", p.cpu_load, 0, 99);
    check_range("read percentage", p.read_percent.value_or(0), 0, 100);
    if (p.threads > p.connections)
        throw failure(fmt::format("{} threads exceed {} connections: each thread needs one", p.threads, p.connections),
                exit_usage);
}

bool needs_responder(workload kind)
{
    return kind == workload::gpspm || kind == workload::aof || kind == workload::send_recv ||
           kind == workload::write_with_imm;
}

bool is_replica(workload kind)
{
    return kind == workload::rpmem_persist || kind == workload::rpmem_flush_drain;
}

std::string unsupported_reason(const setup &point_setup)
{
    const workload kind = workload_from(point_setup.workload);
    if (point_setup.api == api::memcpy && (needs_responder(kind) || kind == workload::connect))
        return "memcpy has only one end";
    if (point_setup.api != api::librpma && is_replica(kind))
        return "librpmem uses librpma only";
    return {};
}

layout::layout(const setup &point_setup)
    : kind_(workload_from(point_setup.workload)), connections_(point_setup.parameters.connections)
{
    const parameters &p = point_setup.parameters;
    block_ = kind_ == workload::atomic_write || kind_ == workload::connect ? 8 : p.block_size;
    if (kind_ == workload::log_append || kind_ == workload::aof)
        header_ = log_header;

    const std::size_t slice = std::clamp(shared_by_slices / connections_, std::size_t{4096}, max_slice_size);
    const std::size_t in_flight = std::size_t{p.depth} * p.flush_interval;
    blocks_ = std::max({slice / block_, in_flight, std::size_t{2}});
    if (kind_ == workload::connect || kind_ == workload::send_recv)
        blocks_ = 2; // message workloads keep their data in the message buffers
    if (kind_ == workload::read)
        blocks_read_ = blocks_;
    if (kind_ == workload::mix)
        blocks_read_ = blocks_ / 2;

    if (needs_responder(kind_)) {
        receives_ = p.depth;
        slot_ = kind_ == workload::send_recv ? std::max<std::size_t>(block_, 16) : request_slot;
    }
    if (kind_ == workload::send_recv)
        block_ = slot_;
    sends_ = p.depth * posts_of(kind_, p.flush_interval);
}

} // namespace bench
