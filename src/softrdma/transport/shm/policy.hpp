// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/config.hpp"

namespace softrdma
{

// SOFTRDMA_TRANSPORT and SOFTRDMA_TRUST, read once.
enum class path_policy {
    tcp,         // all traffic uses the connection
    automatic,   // the fastest path that both sides support
    direct,      // a connection fails if a side cannot access the memory of the other
    descriptors, // shared memory and passed files, but no private memory; otherwise a connection fails
};

inline path_policy policy() noexcept
{
    using config::setting;
    // The undo log of a simulated power cut does not record direct stores of a peer.
    if (config::is(setting::trust, config::trust_word::none) || config::text(setting::powercut) != nullptr)
        return path_policy::tcp;
    switch (static_cast<config::transport_word>(config::value(setting::transport))) {
    case config::transport_word::tcp:
    case config::transport_word::roce:
        return path_policy::tcp;
    case config::transport_word::shm_fd:
        return path_policy::descriptors;
    case config::transport_word::shm:
        return path_policy::direct;
    default:
        return path_policy::automatic;
    }
}

} // namespace softrdma
