// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "transport/shm/peer.hpp"

#include <functional>

namespace softrdma
{

// Requests the descriptors that a peer shares, if check_shm() found no obstacle. Returns the reason if the peer has no
// descriptor server, or not for this process. Otherwise calls `done` once, from the progress thread and with no lock
// held; without an arena if none arrived in time.
no_shm_reason request_fds(const shm_address &h, std::function<void(handover)> done);

} // namespace softrdma
