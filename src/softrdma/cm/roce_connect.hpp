// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "transport/datagram_path.hpp"
#include "verbs/qp.hpp"

// Paths of queue pairs over RoCE. The address and the number of the peer, which are attributes of the queue pair, are
// all that a path needs: no message is exchanged, and the peer may be an RNIC.
namespace softrdma::roce_connect
{

bool is_selected();

// Return whether connections that TCP refused are requested over RoCE, and whether listeners accept both.
bool follows_rejection();
bool is_accepted();

inline constexpr std::uint8_t usual_ack_timeout = 16; // local ACK timeout, unless the program chooses one: 268 ms

ibv_mtu max_path_mtu(std::size_t gid_index); // largest one of the interface with that GID

constexpr std::uint32_t bytes_of(ibv_mtu mtu) noexcept
{
    return 128u << mtu;
}

std::unique_ptr<datagram_path> open_datagram_path();

std::uint32_t reserve_number();            // returns 0 and sets errno on error
void release_number(std::uint32_t number); // also ends the connection

// Gives a queue pair a number, and a path if its state needs one. Returns 0 or an errno value. The port must be open.
int join(queue_pair &qp);
void leave(queue_pair &qp); // reverts join(), unless all queue pairs use RoCE

// Must be called for the number of a connection if its peer uses this device; see roce::connection.
void group_packets(std::uint32_t number);

// Like queue_pair::modify(), and creates the path with RTR. The sender of a packet that arrives earlier repeats it.
int modify(queue_pair &qp, const ibv_qp_attr &attr, int mask);

} // namespace softrdma::roce_connect
