// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "config.hpp"

namespace rpmemd
{

// Implements rpmemd --check for rpmem-doctor: prints one line for each finding about the set and this machine, "topic
// TAB ok|fail TAB text TAB remedy". The last line contains the port of a TCP echo server, which serves one connection
// and exits after a timeout. Creates missing parts like a session and removes them afterwards.
exit_status check_set(const config &settings, const std::string &set_name);

} // namespace rpmemd
