// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "transport/shm/shm_ep.hpp"
#include "transport/packet_path.hpp"
#include "verbs/qp.hpp"

// Finds the shared memory of a peer on this host. cm/handshake.hpp describes the messages of both sides.
namespace softrdma::discovery
{

// Address that the peer needs to reach the queue pair. Empty if this process shares no memory.
shm_address own_shm_address(queue_pair &qp, const packet_path &path);
using shm_ep_ptr = std::shared_ptr<shm_ep>; // NULL if the peer's queue pair must be reached through the connection
// Returns true if the peer must pass descriptors first. Then `later` is called once, with no lock held; without an
// endpoint, the system has denied access. Otherwise stores the endpoint in `found`, or the reason in `reason`.
bool reach(const shm_address &h, const packet_path &path, shm_ep_ptr &found, no_shm_reason &reason,
        const std::function<void(shm_ep_ptr)> &later);
bool required(); // returns true if a connection without shared memory must fail, and prints the reason to stderr

} // namespace softrdma::discovery
