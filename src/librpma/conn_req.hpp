// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "conn_parts.hpp"
#include "private_data.hpp"

struct rpma_conn;

struct rpma_conn_req : heap_object {
public:
    static rpma::result<rpma_conn_req *> create_outgoing(
            const rpma_peer &peer, const char *addr, const char *port, const rpma_conn_cfg &cfg);

    // Takes the identifier and private data of a CONNECT_REQUEST event. The caller acknowledges the event afterwards.
    static rpma::result<rpma_conn_req *> create_incoming(
            const rpma_peer &peer, const rdma_cm_event &event, const rpma_conn_cfg &cfg);

    rpma::errc close() { return parts_.close(); }

    // Empties the request, also on error.
    rpma::result<rpma_conn *> connect(const rpma_conn_private_data *pdata);

    ibv_qp *qp() const { return parts_.id->qp; }
    rpma_conn_private_data private_data() const { return private_data_.view(); }

private:
    rpma_conn_req(const rpma_peer &peer, rpma::conn_parts &&parts, rpma::private_data &&data)
        : peer_(peer), parts_(std::move(parts)), private_data_(std::move(data))
    {
    }

    const rpma_peer &peer_;
    rpma::conn_parts parts_;
    rpma::private_data private_data_;
};
