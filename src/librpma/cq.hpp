// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>

#include "rdma/batch.hpp"
#include "rdma/verbs.hpp"

// Completion queue of a connection or an SRQ, with its own or a shared completion channel.
struct rpma_cq {
public:
    rpma_cq() = default;

    // `entries` is limited to INT_MAX. shared_channel, if not NULL, must outlive the queue.
    static rpma::result<rpma_cq> create(ibv_context *context, std::uint32_t entries, ibv_comp_channel *shared_channel);
    rpma::errc close();

    explicit operator bool() const { return static_cast<bool>(cq_); }
    ibv_cq *handle() const { return cq_.get(); }
    int fd() const { return channel_->fd; }
    // Posts the operations that the connection queued, then waits for a completion.
    rpma::errc wait() const;
    void set_batch(const rpma::rdma::batch_pointer &batch) { batch_ = &batch; }

private:
    rpma::rdma::comp_channel_handle own_channel_;
    ibv_comp_channel *channel_ = nullptr;
    rpma::rdma::cq_handle cq_;
    const rpma::rdma::batch_pointer *batch_ = nullptr; // NULL for the CQ of an SRQ
};
