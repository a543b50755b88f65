// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "cm/handshake.hpp"

// Queue pairs that ibv_modify_qp() connects. Their numbers are port << 8 | index, with a TCP port of their process. The
// queue pair with the larger number connects when it is ready to receive, and retries until the other one is ready.
namespace softrdma::static_connect
{

std::uint32_t reserve_number();            // returns 0 and sets errno on error
void release_number(std::uint32_t number); // also ends the connection; ignores numbers that were not reserved

int check(const ibv_ah_attr &address) noexcept; // EINVAL if no path can lead to the address, or 0
void connect(queue_pair &qp);                   // called in RTR
void limit_retry_timeout(queue_pair &qp);       // called in RTS: an unreachable peer is then an error
void disconnect(queue_pair &qp);

// Handles the first message of a path. Returns false if it matches no queue pair of this module.
bool received_request(const std::shared_ptr<tcp_conn> &path, const packet &p) REQUIRES(cm::lock());

} // namespace softrdma::static_connect
