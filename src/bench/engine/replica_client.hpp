// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "client.hpp"

namespace bench
{

// Client of librpmem, whose daemon is the peer. target_path: location of the replica, in memory if empty.
std::unique_ptr<client> open_replica_client(const setup &point_setup, const std::string &target_path);

} // namespace bench
