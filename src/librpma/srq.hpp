// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "cq.hpp"
#include "mr.hpp"
#include "srq_cfg.hpp"

struct rpma_srq : heap_object {
public:
    static rpma::result<rpma_srq *> create(const rpma_peer &peer, const rpma_srq_cfg &cfg);
    rpma::errc close();

    ibv_srq *handle() const { return srq_.get(); }
    rpma_cq *rcq() { return rcq_ ? &rcq_ : nullptr; }

private:
    rpma_srq(rpma::rdma::srq_handle &&srq, rpma_cq &&rcq) : srq_(std::move(srq)), rcq_(std::move(rcq)) {}

    rpma::rdma::srq_handle srq_;
    rpma_cq rcq_;
};
