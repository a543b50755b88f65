// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/unique_fd.hpp"

#include <sys/socket.h>

namespace softrdma::roce
{

// Sends a management datagram that devices drop to the UDP port of a host, from another port. A host without the port
// reports it (ICMP). Ports of the addresses are ignored. Returns an empty descriptor if the packet cannot be sent.
unique_fd probe(sockaddr_storage from, sockaddr_storage to) noexcept;
// Returns true if the host has reported that the port is closed, or the network that it is not reachable.
bool is_closed(const unique_fd &probe) noexcept;

} // namespace softrdma::roce
