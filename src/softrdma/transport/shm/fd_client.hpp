// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "transport/shm/peer.hpp"

#include <functional>

namespace softrdma
{

// Requests the descriptors that a peer shares, if obstacle_to() found none. Returns the obstacle if the peer has no
// descriptor server, or not for this process. Otherwise calls `done` once, from the progress thread and with no lock
// held; without an arena if none arrived in time.
obstacle request_fds(const shm_address &h, std::function<void(handover)> done);

} // namespace softrdma
