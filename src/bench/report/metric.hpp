// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "results.hpp"
#include "units.hpp"

#include <optional>
#include <span>
#include <string_view>

// The figures a point gives.
namespace bench::report
{

struct metric {
    const char *key; // the name in exports and in result files: latency_p50
    const char *name;
    unit measured_in;
    bool lower_is_better;
    std::optional<double> (*of)(const repeat &);
};

// Every metric, in the order of the exports.
std::span<const metric> all_metrics();
// By key; the key must exist.
const metric &metric_of(std::string_view key);

// The repeats of a point as one value with its spread.
struct summary {
    double median = 0, low = 0, high = 0;
};

summary summarize(const std::vector<double> &values);
// Empty unless every repeat has the figure: high percentiles of the long repeats alone would mislead.
std::optional<summary> summarize(const point &p, const metric &m);

} // namespace bench::report
