// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "cm/handshake.hpp"

// Queue pairs that ibv_modify_qp() connects, without the connection manager. Their numbers are port << 8 | index, with
// the TCP port of their process, so they are unique on a host. The queue pair with the larger number connects when it
// is ready to receive, and retries until the other one is ready.
namespace softrdma::static_connect
{

// Returns 0 and sets errno on error.
std::uint32_t reserve_number();
// Also ends the connection. No effect on a number that was not reserved.
void release_number(std::uint32_t number);

// Returns EINVAL for an address that no path can lead to, or 0.
int check(const ibv_ah_attr &address) noexcept;
// Called when the queue pair has entered RTR.
void connect(queue_pair &qp);
// Called when the queue pair has entered RTS: an unreachable peer is an error after this call.
void limit_retry_timeout(queue_pair &qp);
void disconnect(queue_pair &qp);

// Handles the first message of a path. Returns false if it matches no queue pair of this module.
bool received_request(const std::shared_ptr<tcp_conn> &path, const packet &p) REQUIRES(cm::lock());

} // namespace softrdma::static_connect
