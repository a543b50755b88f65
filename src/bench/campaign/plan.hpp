// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "results.hpp"

// Which points are measured, and for how long.
namespace bench
{

struct timing {
    std::uint32_t repeats = 3;
    double duration_s = 1;
    double warm_up_limit_s = 2;
};

// The target's memory in a plan, before it is known what the server's target is.
constexpr const char *planned_target = "target";

// All combinations of these values.
struct axes {
    std::vector<std::string> workloads;
    std::vector<api> apis = {api::librpma};
    std::vector<std::uint64_t> block_sizes = {4096};
    std::vector<std::uint32_t> depths = {1};
    std::vector<std::uint32_t> connections = {1};
    std::vector<std::uint32_t> threads = {1};
    std::vector<flush_kind> flushes = {flush_kind::visibility};
    std::vector<std::uint32_t> flush_intervals = {1};
    std::vector<polling> pollings = {polling::busy};
    std::vector<access> accesses = {access::sequential};
    std::vector<std::uint32_t> read_percents = {70};
    std::vector<std::uint32_t> cpu_loads = {0};
    std::vector<std::string> memories; // dram, target; empty: the target for persistent flushes, else DRAM
};

struct plan {
    std::string profile;
    std::vector<setup> setups;
    bench::timing timing;
};

// Without what an axis does not touch and without repetitions. Throws failure for values that cannot be.
std::vector<setup> expand(const axes &values);
void append(std::vector<setup> &to, const std::vector<setup> &more);

// quick, standard or full. Throws failure for another name.
plan plan_profile(const std::string &name);
// The axis over its usual range, for each workload. Throws failure for an unknown axis.
plan plan_sweep(const std::string &axis, const axes &fixed);
const std::vector<std::string> &sweep_names();

double estimate_s(std::size_t points, const timing &t);
// What is left of points that were planned to take so long. The pace of those that are done counts beside the plan: a
// busy machine is slower than planned.
double left_s(std::size_t done, std::size_t points, double planned_s, double elapsed_s);

} // namespace bench
