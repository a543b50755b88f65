// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string_view>

namespace replica
{

inline constexpr std::size_t max_set_name_len = 255;

// Returns NULL if the name is valid beneath the poolset directory of the daemon, otherwise the error.
const char *set_name_fault(std::string_view name);

} // namespace replica
