// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "results.hpp"
#include "units.hpp"

#include <optional>
#include <span>
#include <string>

// The figures a point gives.
namespace bench::report
{

struct metric {
    const char *key; // the name in exports and on the command line: latency_p50
    const char *name;
    unit measured_in;
    bool lower_is_better;
    std::optional<double> (*of)(const repeat &);
};

// Every metric, in the order of the exports.
std::span<const metric> all_metrics();
// By key; the key must exist.
const metric &metric_of(const std::string &key);
const metric *find_metric(const std::string &key);

// The repeats of a point as one value with its spread.
struct summary {
    double median = 0, low = 0, high = 0;
};

// Empty unless every repeat has the figure: high percentiles of the long repeats alone would mislead.
std::optional<summary> summarize(const point &p, const metric &m);

// Latency at a rank; empty when it was not measured.
std::optional<double> latency_at(const latency &l, double rank);

// The median of at least one value.
double median_of(std::vector<double> values);

} // namespace bench::report
