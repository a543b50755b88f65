// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace rpmem
{

// Reports in the log, in syslog and in the state file that the program continues without the replica.
void report_degraded(const char *replica_name, int error);

} // namespace rpmem
