// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "entry.hpp"
#include "figure.hpp"

#include <span>
#include <vector>

namespace bench::report
{

// One measurement beside another: the paired runs of a comparison, librpma beside raw verbs, and all interfaces.
std::vector<figure> ratio_figures(std::span<const run> runs, std::span<const entry> entries);

// The ratios of librpma's median latency to that of raw verbs in the same setups.
std::vector<ratio_row> beside_verbs(std::span<const entry> entries);

} // namespace bench::report
