// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "progress/event_loop.hpp"

#include <cstdint>

namespace softrdma
{

// Number of the socket where this process passes the descriptors that its peers need to share its memory. Opened and
// served by the progress thread. 0 if it is not open.
std::uint64_t fd_server_number();

// Starts the event loop with the services for peers on this host: its thread reports the end of this process to them,
// and serves descriptors. Returns NULL and sets errno on error.
event_loop *start_event_loop();

} // namespace softrdma
