// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Memory barriers that one thread executes for others. Two sides that each store and then look at what the other has
// stored need a barrier between the two steps; where one of them does so for every operation and the other hardly ever,
// the second one executes both, with a system call, and the first is left with plain stores.
//
// Who is out of the kernel's reach (a process may have forbidden itself the system call) is waited for, longer than a
// processor keeps a store to itself.
namespace softrdma::local::barriers
{

// Puts the threads of this process within reach; the first call counts. One with many threads waits for some
// milliseconds. False if the kernel refuses.
bool enroll() noexcept;

// `all_enrolled` says that of the processes concerned.
void execute_between_processes(bool all_enrolled) noexcept;

} // namespace softrdma::local::barriers
