// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "conn_cfg.hpp"
#include "peer.hpp"
#include "srq.hpp"

namespace rpma
{

// Copy of a configuration, made at the start of the call.
struct conn_settings {
    explicit conn_settings(const rpma_conn_cfg &cfg);

    errc check() const;

    const int timeout_ms;
    const std::uint32_t cq_size;
    const std::uint32_t rcq_size;
    const std::uint32_t sq_size;
    const std::uint32_t rq_size;
    const bool share_channel;
    rpma_srq *const srq;
};

// Time for which a queue pair repeats requests to a peer that does not acknowledge them.
struct retry_limits {
    // Values for RPMA_PEER_TIMEOUT_MS, or the device's own timeout and retries.
    static result<retry_limits> from_environment();

    std::uint8_t retries = rdma::default_retries;
    std::uint8_t ack_timeout_exponent = 0; // 0 for the device's own timeout
};

// Parts of a connection request; a connection takes ownership of them. close() releases them in the reverse order of
// declaration and rejects an incoming request that was not accepted.
struct conn_parts {
    conn_parts() = default;
    conn_parts(conn_parts &&) = default;
    conn_parts &operator=(conn_parts &&) = delete;
    ~conn_parts();
    errc close();

    errc create_queues(const rpma_peer &peer, const conn_settings &settings);
    errc move_to_own_channel();
    // Call before connecting or accepting.
    errc limit(const retry_limits &limits);

    rpma_cq *rcq_or_null() { return rcq ? &rcq : nullptr; }

    rdma::event_channel_handle event_channel;
    rdma::comp_channel_handle shared_channel;
    rdma::id_handle id;
    bool reject_on_close = false;
    rpma_cq cq;
    rpma_cq rcq;
    rdma::qp_handle qp;
    std::uint64_t native_ops = 0;
    std::uint8_t retries = rdma::default_retries;
};

} // namespace rpma
