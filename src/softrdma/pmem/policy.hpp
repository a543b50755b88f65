// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace softrdma::pmem
{

// SOFTRDMA_NATIVE_VERBS=off: FLUSH and ATOMIC WRITE do not exist, as on a NIC without them.
bool native_verbs() noexcept;
// SOFTRDMA_READ_FLUSH=off: a READ does not make earlier stores durable.
bool read_flushes() noexcept;
// SOFTRDMA_VOLATILE=reject: memory that cannot be made durable is rejected at registration for persistent FLUSH.
// Otherwise it is accepted, and the FLUSH only ensures visibility.
bool refuses_volatile() noexcept;

} // namespace softrdma::pmem
