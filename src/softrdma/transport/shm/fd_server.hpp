// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "progress/event_loop.hpp"

#include <cstdint>

namespace softrdma
{

// Number of the socket where the progress thread passes the descriptors for sharing memory; 0 if it is not open.
std::uint64_t fd_server_number();

// Starts the event loop, which reports the exit of this process and serves descriptors. NULL, with errno, on error.
event_loop *start_event_loop();

} // namespace softrdma
