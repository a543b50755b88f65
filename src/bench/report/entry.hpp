// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "results.hpp"
#include "units.hpp"

#include <span>
#include <string>
#include <vector>

// The points of one or more result files, taken apart into what a figure can group by.
namespace bench::report
{

// One result file.
struct run {
    std::string name; // unique among the runs of a report
    results data;
};

// A point, or one half of a mix.
struct entry {
    std::string run;
    std::string half;    // "reads" or "writes" of a mix
    std::string library; // empty when there is only one
    bench::point point;

    const bench::setup &setup() const { return point.setup; }
    const bench::parameters &parameters() const { return point.setup.parameters; }
};

// The halves of a mix follow the whole.
std::vector<entry> entries_of(std::span<const run> runs);

enum class attribute {
    operation, // the workload with the kind of its flush, and the half of a mix
    mixture,   // of reads and writes
    api,
    library,
    run,
    target,
    access,
    polling,
    flush_interval,
    cpu_load,
    block_size,
    depth,
    connections,
    threads
};

inline constexpr attribute all_attributes[] = {attribute::operation, attribute::mixture, attribute::api,
        attribute::library, attribute::run, attribute::target, attribute::access, attribute::polling,
        attribute::flush_interval, attribute::cpu_load, attribute::block_size, attribute::depth, attribute::connections,
        attribute::threads};

// For people: "write + flush (persistent)", "raw verbs", "depth 16". Empty when there is nothing to say. Two entries
// agree in an attribute exactly when its text is the same.
std::string text(attribute a, const entry &e);
// Those texts, one after the other: "64 KiB, depth 16".
std::string texts(std::span<const attribute> attributes, const entry &e);
// Of an attribute that is a number.
double number(attribute a, const entry &e);
// "connections", "block size": an axis, or the heading of a column.
const char *name(attribute a);

// One side of a comparison: its library, or its interface.
std::string side(const setup &s);

// One connection, one operation in flight, an idle target: where an operation shows its own latency.
bool at_rest(const parameters &p);
// 4 KiB if it was measured at rest, otherwise the size nearest to it; 0 without entries.
std::uint64_t usual_block_size(std::span<const entry> entries);

} // namespace bench::report
