// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string_view>

namespace replica
{

inline constexpr std::size_t longest_set_name = 255;

// NULL: the name may be looked up beneath the daemon's directory of poolsets. Otherwise why it may not.
const char *set_name_fault(std::string_view name);

} // namespace replica
