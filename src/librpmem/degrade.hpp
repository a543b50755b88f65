// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace rpmem
{

// With RPMEM_ON_LOSS=degrade: says in the system's log, and in the state file, that the program goes on without its
// replica.
void tell_degraded(const char *replica_name, int error);

} // namespace rpmem
