// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "verbs/qp.hpp"

// Queue pairs that ibv_modify_qp() connects over RoCE. The address and the number of the peer are all that a path
// needs: no message is exchanged, and the peer may be an RNIC.
namespace softrdma::roce_connect
{

// Returns whether SOFTRDMA_TRANSPORT selects RoCE.
bool is_selected();
// Reports a facility that RoCE does not have here.
void report_unsupported(const char *facility);

// Largest path MTU of the interface with the first GID.
ibv_mtu active_mtu();

// Returns 0 and sets errno on error.
std::uint32_t reserve_number();
// Also ends the connection.
void release_number(std::uint32_t number);

// Returns EINVAL if no path can have these attributes, or 0. The mask contains IBV_QP_AV.
int check(const ibv_qp_attr &attr, int mask);
// Called when the queue pair has entered RTR. A packet that arrives earlier is dropped, and its sender repeats it.
void connect(queue_pair &qp);
// Must be called before the queue pair enters RTS, with the attributes of that transition.
void start_sending(std::uint32_t number, const ibv_qp_attr &attr);
void disconnect(queue_pair &qp);

} // namespace softrdma::roce_connect
