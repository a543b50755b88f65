// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "rdma/address.hpp"

// Functions of librdmacm: identifiers, event channels, connection management. They log failures.
namespace rpma::rdma
{

errc destroy_event_channel(const library &lib, rdma_event_channel *channel);
errc destroy_id(const library &lib, rdma_cm_id *id);
errc destroy_qp(const library &lib, rdma_cm_id *id);

using event_channel_handle = handle<rdma_event_channel, destroy_event_channel>;
using id_handle = handle<rdma_cm_id, destroy_id>;
using qp_handle = handle<rdma_cm_id, destroy_qp>;

result<event_channel_handle> create_event_channel(const library &lib);

result<id_handle> create_id(const event_channel_handle &channel);
result<id_handle> create_synchronous_id(const library &lib);

// Returns a synchronous identifier for the first candidate whose address, or address and route, resolves.
result<id_handle> resolve_address(const addrinfo_handle &candidates, int timeout_ms);
result<id_handle> resolve_route(const addrinfo_handle &candidates, int timeout_ms);

result<const rdma_addrinfo *> bind_first(const id_handle &id, const rdma_addrinfo *candidates);
errc listen(const id_handle &id);

struct qp_settings {
    ibv_pd *pd;
    ibv_cq *send_cq;
    ibv_cq *recv_cq;
    ibv_srq *srq;
    std::uint32_t max_sends;
    std::uint32_t max_receives;
    std::uint64_t send_ops; // send_op_* that the queue pair must execute natively
};

// Returns the supported send_op_*: all requested ones, or 0 if the device lacks extended queue pairs.
result<std::uint64_t> create_qp(const id_handle &id, const qp_settings &settings, qp_handle &qp);

// Sets the local acknowledgement timeout, 4.096 us * 2^exponent. Call before connecting or accepting.
errc set_ack_timeout(const id_handle &id, std::uint8_t exponent);

// Number of times that a queue pair repeats an unacknowledged request. Some devices, like SoftRoCE, have no limit at 7.
inline constexpr std::uint8_t default_retries = 7;

errc migrate(const id_handle &id, const event_channel_handle &channel);
// The retry count of the active side applies to both sides.
errc connect(const id_handle &id, const rpma_conn_private_data *pdata, std::uint8_t retries);
errc accept(const id_handle &id, const rpma_conn_private_data *pdata);
errc reject(const id_handle &id);
errc disconnect(const id_handle &id);

// Waits for an event, which the caller must acknowledge. Returns no_event on an empty non-blocking channel.
result<rdma_cm_event *> next_event(const event_channel_handle &channel);
errc acknowledge(const event_channel_handle &channel, rdma_cm_event *event);
const char *event_name(rdma_cm_event_type type);

} // namespace rpma::rdma
