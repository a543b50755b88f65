// SPDX-License-Identifier: BSD-3-Clause
#include "abi/device.hpp"
#include "pmem/policy.hpp"
#include "verbs/datagram_qp.hpp"
#include "verbs/qp.hpp"

using namespace softrdma;

namespace
{

post_batch &batch_of(ibv_qp_ex *qp) noexcept
{
    return *object_of(&qp->qp_base).batch();
}

wqe &add(ibv_qp_ex *qp, ibv_wr_opcode opcode)
{
    return batch_of(qp).add(qp->wr_id, qp->wr_flags, opcode);
}

wqe &add_remote(ibv_qp_ex *qp, ibv_wr_opcode opcode, std::uint32_t rkey, std::uint64_t remote_addr)
{
    wqe &w = add(qp, opcode);
    w.set_remote(remote_addr, rkey);
    return w;
}

void start(ibv_qp_ex *qp)
{
    batch_of(qp).start();
}

int complete(ibv_qp_ex *qp)
{
    post_batch &batch = batch_of(qp);
    int error = batch.error();
    if (error == 0 && batch.size() > 0)
        error = abi::usable(batch.birth())
                        ? or_no_memory(ENOMEM, [&] { return object_of(&qp->qp_base).submit_batch(batch.size()); })
                        : ENODEV;
    batch.unlock();
    return error;
}

void send_message(ibv_qp_ex *qp)
{
    add(qp, IBV_WR_SEND);
}

void send_imm(ibv_qp_ex *qp, __be32 imm)
{
    add(qp, IBV_WR_SEND_WITH_IMM).imm_data = imm;
}

void bind_mw(ibv_qp_ex *qp, ibv_mw *mw, std::uint32_t rkey, const ibv_mw_bind_info *info)
{
    wqe &w = add(qp, IBV_WR_BIND_MW);
    if (info == nullptr || !may_be_bound(mw, rkey))
        return batch_of(qp).fail(EINVAL);
    w.set_bind(rkey, *info);
}

void send_datagram(ibv_qp_ex *qp)
{
    add(qp, IBV_WR_SEND).set_ud(nullptr, 0, 0);
}

void send_datagram_imm(ibv_qp_ex *qp, __be32 imm)
{
    wqe &w = add(qp, IBV_WR_SEND_WITH_IMM);
    w.imm_data = imm;
    w.set_ud(nullptr, 0, 0);
}

void set_inline_data(ibv_qp_ex *qp, void *addr, std::size_t length)
{
    const ibv_data_buf segment{addr, length};
    batch_of(qp).set_inline({&segment, 1});
}

void atomic_write(ibv_qp_ex *qp, std::uint32_t rkey, std::uint64_t remote_addr, const void *word)
{
    add_remote(qp, native::wr_atomic_write, rkey, remote_addr);
    set_inline_data(qp, const_cast<void *>(word), sizeof(std::uint64_t));
}

void flush(ibv_qp_ex *qp, std::uint32_t rkey, std::uint64_t remote_addr, std::size_t length, std::uint8_t placement,
        std::uint8_t level)
{
    constexpr std::uint8_t placements = native::placement_global | native::placement_persistent;
    if (level == native::level_region)
        remote_addr = length = 0;
    if (level > native::level_region || placement == 0 || (placement & ~placements) != 0 || length > UINT32_MAX)
        return batch_of(qp).fail(EINVAL);
    add_remote(qp, native::wr_flush, rkey, remote_addr).args.flush = {
            static_cast<std::uint32_t>(length), placement, level};
}

constexpr std::uint64_t plain_ops = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                                    IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ |
                                    IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP | IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD |
                                    IBV_QP_EX_WITH_BIND_MW | IBV_QP_EX_WITH_LOCAL_INV | IBV_QP_EX_WITH_SEND_WITH_INV;
constexpr std::uint64_t datagram_ops = IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM;
constexpr std::uint64_t native_ops = native::send_op_flush | native::send_op_atomic_write;

} // namespace

namespace softrdma::abi
{

bool offers_send_ops(ibv_qp_type type, std::uint64_t ops) noexcept
{
    const std::uint64_t offered =
            type == IBV_QPT_UD ? datagram_ops : plain_ops | (pmem::native_verbs() ? native_ops : 0);
    return (ops & ~offered) == 0;
}

void install_post_ex(qp_object &qp, std::uint64_t ops)
{
    qp.open_batch();
    if ((ops & native::send_op_flush) != 0)
        context_of(qp.verbs()->context).memory.uses_flush().store(1, std::memory_order_relaxed);
    qp.wr_start = start;
    qp.wr_complete = complete;
    qp.wr_abort = [](auto *of) { batch_of(of).unlock(); };
    qp.wr_set_sge = [](auto *of, auto lkey, auto addr, auto length) { batch_of(of).set_sge(addr, length, lkey); };
    qp.wr_set_sge_list = [](auto *of, auto count, auto *list) { batch_of(of).set_sges({list, count}); };
    qp.wr_set_inline_data = set_inline_data;
    qp.wr_set_inline_data_list = [](auto *of, auto count, auto *list) { batch_of(of).set_inline({list, count}); };
    const auto offer = [ops](std::uint64_t op, auto &member, auto function) {
        if ((ops & op) != 0)
            member = function;
    };
    const bool datagrams = sends_datagrams(qp.verbs());
    if (datagrams)
        qp.wr_set_ud_addr = [](auto *of, auto *ah, auto qpn, auto qkey) { batch_of(of).set_ud(ah, qpn, qkey); };
    offer(IBV_QP_EX_WITH_SEND, qp.wr_send, datagrams ? send_datagram : send_message);
    offer(IBV_QP_EX_WITH_SEND_WITH_IMM, qp.wr_send_imm, datagrams ? send_datagram_imm : send_imm);
    offer(IBV_QP_EX_WITH_RDMA_READ, qp.wr_rdma_read,
            [](auto *of, auto... range) { add_remote(of, IBV_WR_RDMA_READ, range...); });
    offer(IBV_QP_EX_WITH_RDMA_WRITE, qp.wr_rdma_write,
            [](auto *of, auto... range) { add_remote(of, IBV_WR_RDMA_WRITE, range...); });
    offer(IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM, qp.wr_rdma_write_imm, [](auto *of, auto rkey, auto addr, auto imm) {
        add_remote(of, IBV_WR_RDMA_WRITE_WITH_IMM, rkey, addr).imm_data = imm;
    });
    offer(IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP, qp.wr_atomic_cmp_swp,
            [](auto *of, auto rkey, auto addr, auto compare, auto swap) {
                add_remote(of, IBV_WR_ATOMIC_CMP_AND_SWP, rkey, addr).args.atomic = {compare, swap};
            });
    offer(IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD, qp.wr_atomic_fetch_add, [](auto *of, auto rkey, auto addr, auto value) {
        add_remote(of, IBV_WR_ATOMIC_FETCH_AND_ADD, rkey, addr).args.atomic = {value, 0};
    });
    offer(IBV_QP_EX_WITH_BIND_MW, qp.wr_bind_mw, bind_mw);
    offer(IBV_QP_EX_WITH_LOCAL_INV, qp.wr_local_inv,
            [](auto *of, auto rkey) { add(of, IBV_WR_LOCAL_INV).rkey = rkey; });
    offer(IBV_QP_EX_WITH_SEND_WITH_INV, qp.wr_send_inv,
            [](auto *of, auto rkey) { add(of, IBV_WR_SEND_WITH_INV).rkey = rkey; });
    offer(native::send_op_atomic_write, qp.wr_atomic_write, atomic_write);
    offer(native::send_op_flush, native::wr_flush_of(qp), flush);
}

} // namespace softrdma::abi
