// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>
#include <string_view>

namespace softrdma::sysfs
{

// Directories of the system that contain directories of the device. The tree links their other entries, for lists.
inline constexpr std::string_view listed_directories[] = {"/sys/class", "/sys/class/misc", "/sys/devices/platform"};

// Private directory with the files that the kernel would show for the device: its subdirectories are those of /sys, and
// dev/infiniband. The first call creates it. Empty if no directory can be created.
const std::string &tree();

// Like tree(), but does not create the directory.
const std::string *existing_tree() noexcept;

} // namespace softrdma::sysfs
