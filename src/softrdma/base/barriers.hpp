// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Asymmetric memory barriers. Two sides that each store and then load what the other stored need a barrier between both
// steps. If one side does this rarely, it executes both barriers by the system call membarrier, and the frequent side
// needs only plain stores. If membarrier does not reach a process, which may have blocked it, the rare side waits
// longer than a CPU delays a store.
namespace softrdma::barriers
{

// Registers this process for membarrier; only the first call has an effect. A process with many threads waits some
// milliseconds. Returns false if the kernel refuses.
bool enroll() noexcept;

// `all_enrolled`: enroll() succeeded in each of the processes concerned.
void execute_between_processes(bool all_enrolled) noexcept;

} // namespace softrdma::barriers
