// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "client.hpp"

namespace bench
{

// Creates a client that measures librpmem, whose daemon is the peer. target_path: location of the replica; empty: in
// memory.
std::unique_ptr<client> open_replica_client(const setup &point_setup, const std::string &target_path);

} // namespace bench
