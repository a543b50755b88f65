// SPDX-License-Identifier: BSD-3-Clause
#pragma once

namespace softrdma::local
{

// SOFTRDMA_PATH and SOFTRDMA_TRUST, read once.
enum class path_policy {
    tcp,         // never a shorter way than the connection
    automatic,   // the shortest that both sides can take
    direct,      // a connection whose sides cannot take from each other what they need fails
    descriptors, // a connection whose sides do not hand it over fails
};

path_policy policy() noexcept;

} // namespace softrdma::local
