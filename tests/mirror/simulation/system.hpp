// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "network.hpp"

// The calls to the system that the code of mirrors makes. On a thread of the simulation they are those of the world,
// otherwise those of the C library.
namespace simulation
{

// Functions of the real system.
void close_file(int fd);

// Called with each message that is sent over a control connection.
void message_sent(network::socket &by, const std::string &bytes);

} // namespace simulation
