// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <librpma_mirror.h>
#include <string>

namespace mirror_tool
{

// State of a set in the text format of Prometheus; each sample has the label set_file. Appends the metrics of the
// program that has the set open, `of_writer`, as far as the state does not contain them.
std::string prometheus_text(const rpma_mirror_state &state, const std::string &set_file, const std::string &of_writer);

} // namespace mirror_tool
