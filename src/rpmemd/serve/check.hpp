// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "config/config.hpp"

namespace rpmemd
{

// Implements rpmemd --check for rpmem-doctor: prints lines "topic TAB ok|fail TAB text TAB remedy". The last line
// contains the port of a TCP echo server for one connection. Creates missing parts like a session, then removes them.
exit_status check_set(const config &settings, const std::string &set_name);

} // namespace rpmemd
