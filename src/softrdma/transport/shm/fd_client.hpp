// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "transport/shm/peer.hpp"

#include <functional>

namespace softrdma::net
{

// Asks a peer from which obstacle_to() keeps us not apart for what it shares. What is in the way if it has no server of
// descriptors, or not for us. Else `done` is called once, by the progress thread and with no lock held; without an
// arena if none has come in time.
local::obstacle request_fds(const local::shm_address &h, std::function<void(local::handover)> done);

} // namespace softrdma::net
