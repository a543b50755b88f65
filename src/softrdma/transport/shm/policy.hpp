// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace softrdma
{

// SOFTRDMA_TRANSPORT and SOFTRDMA_TRUST, read once.
enum class path_policy {
    tcp,         // all traffic uses the connection
    automatic,   // the fastest path that both sides support
    direct,      // a connection fails if a side cannot access the memory of the other
    descriptors, // shared memory and passed files, but no private memory; otherwise a connection fails
};

path_policy policy() noexcept;

} // namespace softrdma
