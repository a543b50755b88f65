// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <string>

namespace rpmemd
{

// Calls f with the /proc directory of each other process of this user that runs this program.
void each_process_like_this(const std::function<void(const std::string &)> &f);

unsigned processes_like_this();

} // namespace rpmemd
