// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "transport/tcp/link.hpp"
#include "bytes.hpp"

// Peers on one host find a shorter way than the connection that they found each other by. Each tells the other where
// its queue pair is in memory; the passive side tries first and answers only if it got there, the active side then
// decides for both. Until it has, the passive side sends nothing.
namespace softrdma::net::neighbour
{

// What the peer needs to reach the queue pair. Absent if this process shares no memory.
local::hello introduce(queue_pair &qp, const link &path);
using way = std::shared_ptr<local::channel>; // NULL: the peer's queue pair is to be reached through the connection
// True if the peer has to hand something over first: then `later` is called once, with no lock held. Else `found` is
// the way.
bool reach(const local::hello &h, const link &path, way &found, std::function<void(way)> later);
// True if a connection without a shorter way is of no use; says so on stderr.
bool required();

// At the end of a message: an absent one takes no bytes. get() is false for anything that put() cannot have made.
void put(byte_writer &w, const local::hello &h) noexcept;
bool get(byte_reader &r, local::hello &h) noexcept;

} // namespace softrdma::net::neighbour
