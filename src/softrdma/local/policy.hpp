// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace softrdma::local
{

// SOFTRDMA_PATH and SOFTRDMA_TRUST, read once.
enum class path_policy {
    tcp,       // never the direct path
    automatic, // the direct path where both sides can take it
    direct,    // a connection that cannot take it fails
};

path_policy policy() noexcept;

} // namespace softrdma::local
