// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "network.hpp"

// The calls to the system that the code of mirrors makes. On a thread of the simulation they are those of the world,
// otherwise those of the C library.
namespace simulation
{

// Of the real system.
void close_file(int fd);

// Somebody looks at what is sent over control connections.
void message_sent(network::socket &by, const std::string &bytes);

} // namespace simulation
