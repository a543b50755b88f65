// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/config.hpp"

namespace softrdma
{

using config::transport_word;

// Path to peers on this host, by SOFTRDMA_TRANSPORT and SOFTRDMA_TRUST: one of `tcp`, `automatic` (the fastest that
// both sides support), `shm` (a connection fails if a side cannot access the memory of the other) and `shm_fd` (shared
// memory and passed files, but no private memory; otherwise a connection fails).
inline transport_word policy() noexcept
{
    using config::setting;
    const auto word = static_cast<transport_word>(config::value(setting::transport));
    // The undo log of a simulated power cut does not record direct stores of a peer.
    const bool is_local = word != transport_word::roce && config::is(setting::trust, config::trust_word::user) &&
                          config::text(setting::powercut) == nullptr;
    return is_local ? word : transport_word::tcp;
}

} // namespace softrdma
