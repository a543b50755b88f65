// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Asymmetric memory barriers: one thread executes them for others. Two sides that each store and then load what the
// other side stored need a barrier between the two steps. If one side does this for every operation and the other
// rarely, the rare side executes both barriers with a system call, membarrier. The frequent side then needs only plain
// stores.
//
// A process that membarrier does not reach (it may have blocked the system call) is handled by a delay that is longer
// than a CPU holds back a store.
namespace softrdma::barriers
{

// Registers this process for membarrier; only the first call has an effect. A process with many threads waits some
// milliseconds. Returns false if the kernel refuses.
bool enroll() noexcept;

// `all_enrolled`: enroll() succeeded in each of the processes concerned.
void execute_between_processes(bool all_enrolled) noexcept;

} // namespace softrdma::barriers
