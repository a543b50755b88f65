// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "message/control.hpp"

namespace rpmem
{

// State file: records, for operators and later programs, the replicas that were lost while a program continued without
// them. Lines are only appended; the last line of a replica is valid. A write failure is logged.

void record_loss(const char *replica_name, int error);

// Records the end of a loss if the replica is recorded as lost: it was rebuilt or removed.
void record_rebuilt(const char *replica_name);
void record_removed(const char *replica_name);

// Returns 0 if the replica may be used, ESTALE if it is recorded as lost, or the error of the file; with a message.
int recorded_fault(const char *replica_name, replica::error_text *reason);

} // namespace rpmem
