// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "lanes/metrics.hpp"

namespace rpmemd
{

class mirror_sets;

// Returns the metrics in the text format of Prometheus.
std::string metrics_text(const daemon_metrics &daemon, const mirror_sets &sets);

} // namespace rpmemd
