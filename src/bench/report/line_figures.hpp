// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "entry.hpp"
#include "figure.hpp"

#include <span>
#include <vector>

namespace bench::report
{

// Curves of a metric over block size, depth, connections, threads or CPU load, wherever there is a curve to draw.
std::vector<figure> line_figures(std::span<const entry> entries);

} // namespace bench::report
