// SPDX-License-Identifier: BSD-3-Clause
#include "srq.hpp"

#include "boundary.hpp"
#include "rdma/work_request.hpp"

using namespace rpma;

result<rpma_srq *> rpma_srq::create(const rpma_peer &peer, const rpma_srq_cfg &cfg)
{
    RPMA_ASSIGN_OR_RETURN(rdma::srq_handle handle, rdma::create_srq(peer.pd(), cfg.rq_size.load()));
    rpma_cq rcq;
    if (const std::uint32_t rcq_size = cfg.rcq_size.load(); rcq_size != 0) {
        RPMA_ASSIGN_OR_RETURN(rcq, rpma_cq::create(peer.pd()->context, rcq_size, nullptr));
    }
    auto *const srq = new rpma_srq(std::move(handle), std::move(rcq));
    if (srq == nullptr)
        return errc::nomem;
    return srq;
}

errc rpma_srq::close()
{
    first_error failures;
    failures.add(rcq_.close());
    failures.add(srq_.close());
    return failures.finish();
}

extern "C" {

int rpma_srq_new(struct rpma_peer *peer, struct rpma_srq_cfg *cfg, struct rpma_srq **srq_ptr)
{
    if (peer == nullptr || srq_ptr == nullptr)
        return RPMA_E_INVAL;
    return return_handle(rpma_srq::create(*peer, cfg != nullptr ? *cfg : default_srq_cfg), srq_ptr);
}

int rpma_srq_delete(struct rpma_srq **srq_ptr)
{
    return close_and_delete(srq_ptr);
}

int rpma_srq_recv(struct rpma_srq *srq, struct rpma_mr_local *dst, size_t offset, size_t len, const void *op_context)
{
    if (srq == nullptr || (dst == nullptr && (offset != 0 || len != 0)))
        return RPMA_E_INVAL;
    if (dst == nullptr)
        return rdma::post_receive(srq->handle(), nullptr, op_context);
    if (!dst->can_transfer(offset, len))
        return RPMA_E_INVAL;
    ibv_sge sge = dst->sge(offset, len);
    return rdma::post_receive(srq->handle(), &sge, op_context);
}

int rpma_srq_get_rcq(const struct rpma_srq *srq, struct rpma_cq **rcq_ptr)
{
    if (srq == nullptr || rcq_ptr == nullptr)
        return RPMA_E_INVAL;
    *rcq_ptr = const_cast<rpma_srq *>(srq)->rcq(); // the caller may use the queue, but srq keeps the ownership
    return 0;
}

} // extern "C"
