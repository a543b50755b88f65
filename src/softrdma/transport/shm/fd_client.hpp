// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "transport/shm/peer.hpp"

#include <functional>

namespace softrdma::net
{

// Asks a peer of this host for what it shares. False, with the reason in `why`, if it has no server of descriptors, or
// not for us. Else `done` is called once, by the progress thread and with no lock held; without an arena if none has
// come in time.
bool request_fds(const local::shm_address &h, std::function<void(local::handover)> done, std::string &why);

} // namespace softrdma::net
