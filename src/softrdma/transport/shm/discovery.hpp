// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "transport/shm/shm_ep.hpp"
#include "transport/packet_path.hpp"
#include "verbs/qp.hpp"

// Peers on one host find shared memory through the connection between them. Each sends the location of its queue pair
// in memory. The passive side tries first, and responds only if it succeeded; the active side then decides for both.
// The passive side sends nothing before that decision.
namespace softrdma::discovery
{

// Address that the peer needs to reach the queue pair. Empty if this process shares no memory.
shm_address own_shm_address(queue_pair &qp, const packet_path &path);
// NULL if the peer's queue pair must be reached through the connection.
using shm_ep_ptr = std::shared_ptr<shm_ep>;
// Returns true if the peer must pass descriptors first. Then `later` is called once, with no lock held; without an
// endpoint, the system has denied access. Otherwise stores the endpoint in `found`, or the reason in `reason`.
bool reach(const shm_address &h, const packet_path &path, shm_ep_ptr &found, no_shm_reason &reason,
        const std::function<void(shm_ep_ptr)> &later);
// Returns true if a connection without shared memory must fail, and prints the reason to stderr.
bool required();

} // namespace softrdma::discovery
