// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace softrdma::pmem
{

// Read from the environment once.

// SOFTRDMA_NATIVE=off: FLUSH and ATOMIC WRITE do not exist, as on a NIC without them.
bool native_verbs() noexcept;
// SOFTRDMA_READ_FLUSH=off: a READ says nothing about the durability of what it follows.
bool read_flushes() noexcept;
// SOFTRDMA_VOLATILE=refuse: memory that nothing makes durable cannot be registered for persistent FLUSH. Otherwise
// it can, and the FLUSH is one for visibility.
bool refuses_volatile() noexcept;

} // namespace softrdma::pmem
