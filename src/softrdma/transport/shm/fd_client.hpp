// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "transport/shm/peer.hpp"

#include <functional>

namespace softrdma
{

// Requests the descriptors that a peer shares, after check_shm(). Returns why it has none for this process. Otherwise
// calls `done` once, from the progress thread without a lock; without an arena if none arrived in time.
no_shm_reason request_fds(const shm_address &h, std::function<void(handover)> done);

} // namespace softrdma
