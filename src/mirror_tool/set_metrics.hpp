// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <librpma_mirror.h>
#include <string>

namespace mirror_tool
{

// State of a set in the text format of Prometheus; each sample has the label set_file.
std::string prometheus_text(const rpma_mirror_state &state, const std::string &set_file);

} // namespace mirror_tool
