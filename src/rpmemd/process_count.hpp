// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <string>

namespace rpmemd
{

// Calls f with the directory in /proc of each other running process of this user and this program.
void each_process_like_this(const std::function<void(const std::string &)> &f);

unsigned processes_like_this();

} // namespace rpmemd
