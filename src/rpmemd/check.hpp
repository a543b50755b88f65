// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <string>

#include "config.hpp"

namespace rpmemd
{

// What rpmemd --check does, for rpmem-doctor: writes a line for each finding about a set and this machine to standard
// output, "topic TAB ok|gap TAB text TAB remedy". The last one has the port of a TCP socket, whose first caller gets
// back what it sends until it closes; without a caller it ends after a while. Parts that are missing are created as for
// a session, and removed again.
exit_status check_set(const config &settings, const std::string &set_name);

} // namespace rpmemd
