// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

namespace softrdma::sysfs
{

// Private directory with the files that the kernel would show for the device: its subdirectories are those of /sys, and
// dev/infiniband. The first call creates it. Empty if no directory can be created.
const std::string &tree();

// Like tree(), but does not create the directory.
const std::string *existing_tree() noexcept;

} // namespace softrdma::sysfs
