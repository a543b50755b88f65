// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <arpa/inet.h>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "abi.hpp"
#include "probe.hpp"
#include "rdma/capabilities.hpp"

// Hot path: posts work requests and polls. Inline up to the call of the provider; failures are reported out of line.
// Sets only the fields that a provider may read for the opcode.
namespace rpma::rdma
{

// Logs the failure, sets errno and returns RPMA_E_PROVIDER.
[[gnu::cold, gnu::noinline]] int post_failed(const char *call, int returned);

inline std::uint64_t to_wr_id(const void *op_context)
{
    return reinterpret_cast<std::uintptr_t>(op_context);
}

static_assert(IBV_SEND_SIGNALED == (RPMA_F_COMPLETION_ALWAYS & ~RPMA_F_COMPLETION_ON_ERROR));
inline unsigned signalled(unsigned flags)
{
    return flags & IBV_SEND_SIGNALED;
}

// Returns the address of the length for a probe. Without an sge this is num_sge, which is 0.
template<class Request>
[[gnu::always_inline]] inline const std::uint32_t &length_of(const Request &wr, const ibv_sge *sge)
{
    return sge != nullptr ? sge->length : reinterpret_cast<const std::uint32_t &>(wr.num_sge);
}

// Posts an empty buffer if sge is NULL. Queue is ibv_qp or ibv_srq.
template<class Queue>
[[gnu::always_inline]] inline int post_receive(Queue *queue, ibv_sge *sge, const void *op_context)
{
    ibv_recv_wr wr;
    wr.wr_id = to_wr_id(op_context);
    wr.next = nullptr;
    wr.sg_list = sge;
    wr.num_sge = sge != nullptr ? 1 : 0;
    // The failed request is always the only one, so its next field receives the unused bad_wr.
    int returned;
    if constexpr (std::is_same_v<Queue, ibv_qp>) {
        STATIC_PROBE(librpma, post_recv, 3, queue->qp_num, wr.wr_id, length_of(wr, sge));
        returned = ibv_post_recv(queue, &wr, &wr.next);
    } else {
        STATIC_PROBE(librpma, post_srq_recv, 3, queue->handle, wr.wr_id, length_of(wr, sge));
        returned = ibv_post_srq_recv(queue, &wr, &wr.next);
    }
    if (returned != 0) [[unlikely]]
        return post_failed(std::is_same_v<Queue, ibv_qp> ? "ibv_post_recv" : "ibv_post_srq_recv", returned);
    return 0;
}

// Fields of each opcode. With sge NULL the length is 0; send_flags are IBV_SEND_*; imm is in host order.
inline void fill(ibv_send_wr &wr, ibv_wr_opcode opcode, ibv_sge *sge, unsigned send_flags, const void *op_context,
        std::uint32_t imm)
{
    wr.wr_id = to_wr_id(op_context);
    wr.next = nullptr;
    wr.sg_list = sge;
    wr.num_sge = sge != nullptr ? 1 : 0;
    wr.opcode = opcode;
    wr.send_flags = send_flags;
    if (opcode == IBV_WR_SEND_WITH_IMM || opcode == IBV_WR_RDMA_WRITE_WITH_IMM)
        wr.imm_data = htonl(imm);
}

inline int post(ibv_qp *qp, ibv_send_wr &wr)
{
    if (const int returned = ibv_post_send(qp, &wr, &wr.next); returned != 0) [[unlikely]]
        return post_failed("ibv_post_send", returned);
    return 0;
}

[[gnu::always_inline]] inline int post_send(
        ibv_qp *qp, ibv_wr_opcode opcode, ibv_sge *sge, unsigned send_flags, const void *op_context, std::uint32_t imm)
{
    ibv_send_wr wr;
    fill(wr, opcode, sge, send_flags, op_context, imm);
    STATIC_PROBE(librpma, post_send, 5, qp->qp_num, wr.opcode, wr.wr_id, wr.send_flags, length_of(wr, sge));
    return post(qp, wr);
}

[[gnu::always_inline]] inline int post_rdma(ibv_qp *qp, ibv_wr_opcode opcode, ibv_sge *sge, std::uint64_t remote_addr,
        std::uint32_t rkey, unsigned send_flags, const void *op_context, std::uint32_t imm = 0)
{
    ibv_send_wr wr;
    fill(wr, opcode, sge, send_flags, op_context, imm);
    wr.wr.rdma.remote_addr = remote_addr;
    wr.wr.rdma.rkey = rkey;
    STATIC_PROBE(librpma, post_rdma, 6, qp->qp_num, wr.opcode, wr.wr_id, wr.send_flags, length_of(wr, sge),
            wr.wr.rdma.remote_addr);
    return post(qp, wr);
}

#ifdef RPMA_HAVE_WR_FLUSH
struct qp_ex_with_flush {
    ibv_qp_ex base;
};
inline auto wr_flush_of(const ibv_qp_ex *qpx)
{
    return qpx->wr_flush;
}
template<class Function>
inline void set_wr_flush(qp_ex_with_flush &qpx, Function *function)
{
    qpx.base.wr_flush = function;
}
#else
// Since rdma-core 45, ibv_qp_ex ends with wr_flush. Read only for queue pairs with send_op_flush, which others reject.
struct qp_ex_with_flush {
    ibv_qp_ex base;
    void (*wr_flush)(ibv_qp_ex *qpx, std::uint32_t rkey, std::uint64_t remote_addr, std::size_t len, std::uint8_t type,
            std::uint8_t level);
};
inline auto wr_flush_of(const ibv_qp_ex *qpx)
{
    return reinterpret_cast<const qp_ex_with_flush *>(qpx)->wr_flush;
}
template<class Function>
inline void set_wr_flush(qp_ex_with_flush &qpx, Function *function)
{
    qpx.wr_flush = function;
}
#endif

inline int complete(ibv_qp_ex *qpx)
{
    const int returned = ibv_wr_complete(qpx);
    return returned == 0 ? returned : post_failed("ibv_wr_complete", returned);
}

[[gnu::always_inline]] inline int post_native_flush(ibv_qp_ex *qpx, std::uint64_t remote_addr, std::uint32_t rkey,
        std::size_t len, std::uint8_t placement, std::uint8_t level, unsigned send_flags, const void *op_context)
{
    keep_in_memory(remote_addr);
    keep_in_memory(len);
    ibv_wr_start(qpx);
    qpx->wr_id = to_wr_id(op_context);
    qpx->wr_flags = send_flags;
    STATIC_PROBE(librpma, post_flush, 5, qpx->qp_base.qp_num, qpx->wr_id, qpx->wr_flags, len, remote_addr);
    wr_flush_of(qpx)(qpx, rkey, remote_addr, len, placement, level);
    return complete(qpx);
}

[[gnu::always_inline]] inline int post_native_atomic_write(ibv_qp_ex *qpx, std::uint64_t remote_addr,
        std::uint32_t rkey, const char *src, unsigned send_flags, const void *op_context)
{
    keep_in_memory(remote_addr);
    ibv_wr_start(qpx);
    qpx->wr_id = to_wr_id(op_context);
    qpx->wr_flags = send_flags;
    STATIC_PROBE(librpma, post_atomic_write, 4, qpx->qp_base.qp_num, qpx->wr_id, qpx->wr_flags, remote_addr);
    ibv_wr_atomic_write(qpx, rkey, remote_addr, src);
    return complete(qpx);
}

inline int poll(ibv_cq *cq, int entries, ibv_wc *wc)
{
    return ibv_poll_cq(cq, entries, wc);
}

} // namespace rpma::rdma
