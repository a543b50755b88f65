// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "transport/datagram_path.hpp"
#include "verbs/qp.hpp"

// Paths of queue pairs over RoCE. The address and the number of the peer, which are attributes of the queue pair, are
// all that a path needs: no message is exchanged, and the peer may be an RNIC.
namespace softrdma::roce_connect
{

bool is_selected();

// Return whether connections over TCP that are refused are requested over RoCE, and whether listeners accept both
// (SOFTRDMA_ROCE).
bool follows_refusal();
bool is_accepted();

// Local ACK timeout of connections for which the program chooses none.
inline constexpr std::uint8_t usual_ack_timeout = 16; // 268 ms

// Largest path MTU of the interface with that GID.
ibv_mtu max_path_mtu(std::size_t gid_index);

constexpr std::uint32_t bytes_of(ibv_mtu mtu) noexcept
{
    return 128u << mtu;
}

std::unique_ptr<datagram_path> open_datagram_path();

// Returns 0 and sets errno on error.
std::uint32_t reserve_number();
// Also ends the connection.
void release_number(std::uint32_t number);

// Gives a queue pair a number, and a path if its state needs one. Returns 0 or an errno value. The port must be open.
int join(queue_pair &qp);
// Reverts join(), unless all queue pairs use RoCE.
void leave(queue_pair &qp);

// Must be called for the number of a connection if its peer uses this device; see roce::connection.
void group_packets(std::uint32_t number);

// Modifies the queue pair like queue_pair::modify(), and gives it its path with RTR. A packet that arrives earlier is
// dropped, and its sender repeats it.
int modify(queue_pair &qp, const ibv_qp_attr &attr, int mask);

} // namespace softrdma::roce_connect
