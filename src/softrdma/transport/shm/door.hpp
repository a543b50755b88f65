// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "progress/agent.hpp"

#include <cstdint>

namespace softrdma::net
{

// Number of the socket where this process hands over what its peers need to share its memory; opened and served by
// the agent. 0 if there is none.
std::uint64_t own_door();

// The agent, started with what peers of this host rely on: its thread tells them when this process ends, and serves
// them descriptors. NULL with errno.
agent *start_agent();

} // namespace softrdma::net
