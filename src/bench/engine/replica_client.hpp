// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "client.hpp"

namespace bench
{

// Measures librpmem, whose daemon is the other end. target_path: where the replica is; empty: in memory.
std::unique_ptr<client> open_replica_client(const setup &what, const std::string &target_path);

} // namespace bench
