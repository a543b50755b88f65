// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

namespace softrdma::net
{

// Number of the socket where this process hands over what its peers need to share its memory; opened and served by
// the agent. 0 if there is none.
std::uint64_t own_door();

} // namespace softrdma::net
