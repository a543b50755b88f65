// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "network.hpp"

// System calls of the mirror's code. In a simulated thread they use the simulated world, otherwise the C library.
namespace simulation
{

// Functions of the real system.
void close_file(int fd);

// Called with each message that is sent over a control connection.
void message_sent(network::socket &by, const std::string &bytes);

} // namespace simulation
