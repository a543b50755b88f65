// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "wire/shm_address.hpp"

#include <sys/types.h>

namespace softrdma
{

const identity &own_identity();
// Start of a process in clock ticks since boot; 0 if the process does not exist or /proc is missing.
std::uint64_t start_time_of(pid_t pid);
bool yama_restricts(); // returns true if Yama restricts ptrace access to selected processes of the same user

} // namespace softrdma
