// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "progress/event_loop.hpp"

#include <cstdint>

namespace softrdma::net
{

// Number of the socket where this process hands over what its peers need to share its memory; opened and served by
// the progress thread. 0 if there is none.
std::uint64_t fd_server_number();

// The event loop, started with what peers of this host rely on: its thread tells them when this process ends, and
// serves them descriptors. NULL with errno.
event_loop *start_event_loop();

} // namespace softrdma::net
