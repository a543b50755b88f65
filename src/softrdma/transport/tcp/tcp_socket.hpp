// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <sys/socket.h>

namespace softrdma::tcp_socket
{

void prepare(int fd); // sets options: output is sent without delay, and a peer that disappears is detected

// Selects a congestion control without pacing for a connection within a host. The algorithm of the system may pace:
// with BBR a stream takes 1.4 times as long. Call it once the connection is established.
void use_all_of_host(int fd);

struct addresses { // both ends; AF_UNSPEC if unknown
    sockaddr_storage local{};
    sockaddr_storage remote{};
};
addresses addresses_of(int fd) noexcept;

std::size_t send_space(int fd) noexcept; // bytes that can be sent without waiting

// TCP connects a socket to its own port if no process listens there and its ephemeral port is the destination.
bool is_connected_to_itself(int fd) noexcept;

} // namespace softrdma::tcp_socket
