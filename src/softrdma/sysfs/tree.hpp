// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <string_view>

namespace softrdma::sysfs
{

// Directories with directories of the device. The tree links their other entries, for lists.
inline constexpr std::string_view listed_directories[] = {"/sys/class", "/sys/class/misc", "/sys/devices/platform"};

// Private directory with the files of the device in /sys and /dev/infiniband, created by the first call, or empty.
const std::string &tree();

const std::string *existing_tree() noexcept; // like tree(), but does not create it

} // namespace softrdma::sysfs
