// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace softrdma::local
{

// SOFTRDMA_PATH and SOFTRDMA_TRUST, read once.
enum class path_policy {
    tcp,         // never shared memory than the connection
    automatic,   // the shortest that both sides can take
    direct,      // a connection whose sides cannot reach each other's memory fails
    descriptors, // shared memory and files that are handed over, but no private memory; without them a connection fails
};

path_policy policy() noexcept;

} // namespace softrdma::local
