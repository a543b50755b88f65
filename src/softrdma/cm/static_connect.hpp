// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "cm/handshake.hpp"

// Queue pairs that are connected by ibv_modify_qp() alone, without the connection manager. The number of such a queue
// pair is the TCP port under which its peer reaches this process, and an index: port << 8 | index. The port allocator
// of the kernel makes numbers unique on a host. Of two queue pairs the one with the larger number connects, as soon as
// it is ready to receive and again until the other one is.
namespace softrdma::net::static_connect
{

// 0 with errno.
std::uint32_t reserve_number();
// Ends the connection too; does nothing for a number that was not reserved.
void release_number(std::uint32_t number);

// EINVAL for an address that no path can lead to, or 0.
int check(const ibv_ah_attr &address) noexcept;
// The queue pair has become ready to receive.
void connect(queue_pair &qp);
// The queue pair has become ready to send: from now on an unreachable peer is an error.
void limit_retry_timeout(queue_pair &qp);
void disconnect(queue_pair &qp);

// The first message has come over that path. False if no queue pair here is to be connected by it.
bool received_request(const std::shared_ptr<tcp_conn> &path, const packet &p) REQUIRES(cm::lock());

} // namespace softrdma::net::static_connect
