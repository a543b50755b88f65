// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "entry.hpp"
#include "figure.hpp"

#include <span>
#include <vector>

namespace bench::report
{

// Latency over the percentile, at one block size.
std::vector<figure> percentile_figures(std::span<const entry> entries);
// 4 KiB if it was measured, otherwise the size nearest to it; 0 without entries.
std::uint64_t usual_block_size(std::span<const entry> entries);

} // namespace bench::report
