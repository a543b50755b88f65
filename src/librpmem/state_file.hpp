// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "control.hpp"

namespace rpmem
{

// The state file tells, for operators and for the next program, what became of replicas that were lost while a program
// went on without them. Lines are only appended; the last line about a replica is what holds.
// A file that cannot be written is told in the log of the library.

// The replica is out of date from now on, because of this error.
void record_loss(const char *replica_name, int error);

// If the replica was recorded as lost, says here that it is so no more.
void record_made_again(const char *replica_name);
void record_removed(const char *replica_name);

// 0 if the replica may be used as far as the file tells; otherwise an errno, and the text says why. ESTALE: it is
// recorded as lost.
int recorded_fault(const char *replica_name, replica::error_text *why);

} // namespace rpmem
