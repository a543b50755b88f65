// SPDX-License-Identifier: BSD-3-Clause
#include "transport/shm/policy.hpp"
#include "base/config.hpp"

namespace softrdma
{

path_policy policy() noexcept
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
