// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "conn_req.hpp"

struct rpma_ep : heap_object {
public:
    static rpma::result<rpma_ep *> create(const rpma_peer &peer, const char *addr, const char *port);
    rpma::errc close();

    int fd() const { return channel_->fd; }
    rpma::result<rpma_conn_req *> next_conn_req(const rpma_conn_cfg &cfg);

private:
    rpma_ep(const rpma_peer &peer, rpma::rdma::event_channel_handle &&channel, rpma::rdma::id_handle &&id)
        : peer_(peer), channel_(std::move(channel)), id_(std::move(id))
    {
    }

    const rpma_peer &peer_;
    rpma::rdma::event_channel_handle channel_;
    rpma::rdma::id_handle id_;
};
