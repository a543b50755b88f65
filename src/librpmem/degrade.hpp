// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace rpmem
{

// Reports in the log, in syslog and in the state file that the program continues without the replica
// (RPMEM_ON_LOSS=degrade, or other targets are left).
void report_degraded(const char *replica_name, int error);

} // namespace rpmem
