// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "transport/shm/shm_ep.hpp"
#include "transport/packet_path.hpp"
#include "verbs/qp.hpp"

// Peers on one host find shared memory by the connection that they have found each other by. Each tells the other where
// its queue pair is in memory; the passive side tries first and answers only if it got there, the active side then
// decides for both. Until it has, the passive side sends nothing.
namespace softrdma::net::discovery
{

// What the peer needs to reach the queue pair. Absent if this process shares no memory.
local::shm_address own_shm_address(queue_pair &qp, const packet_path &path);
using shm_ep_ptr =
        std::shared_ptr<local::shm_ep>; // NULL: the peer's queue pair is to be reached through the connection
// True if the peer has to hand something over first: then `later` is called once, with no lock held; without an
// endpoint the obstacle is that the system refuses it. Else `found` is the endpoint, or `why` says what keeps the two
// apart.
bool reach(const local::shm_address &h, const packet_path &path, shm_ep_ptr &found, local::obstacle &why,
        const std::function<void(shm_ep_ptr)> &later);
// True if a connection without shared memory is of no use; says so on stderr.
bool required();

} // namespace softrdma::net::discovery
