// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <sys/socket.h>

// What a connection asks of its socket.
namespace softrdma::net::tcp_socket
{

// What leaves, leaves at once, and a peer that vanishes is noticed.
void prepare(int fd);

// A connection within a host has no network to spare, which the algorithm that the system has for others may do at its
// expense: BBR paces, and a stream takes 1.4 times as long. To be called once it is established.
void use_all_of_host(int fd);

// Of both ends; AF_UNSPEC where there is none.
struct addresses {
    sockaddr_storage here{};
    sockaddr_storage there{};
};
addresses addresses_of(int fd) noexcept;

// How many bytes it would take to send without waiting.
std::size_t room(int fd) noexcept;

// TCP connects a socket to its own port if nobody listens there: an ephemeral source port can meet the destination.
bool is_connected_to_itself(int fd) noexcept;

} // namespace softrdma::net::tcp_socket
