// SPDX-License-Identifier: BSD-3-Clause
#include "abi/device.hpp"
#include "verbs/cq.hpp"

using namespace softrdma;
using abi::fail_with;

namespace
{

// No timestamps: the time at which a peer completed a request is unknown.
constexpr std::uint64_t offered_fields = IBV_WC_EX_WITH_BYTE_LEN | IBV_WC_EX_WITH_IMM | IBV_WC_EX_WITH_QP_NUM |
                                         IBV_WC_EX_WITH_SRC_QP | IBV_WC_EX_WITH_SLID | IBV_WC_EX_WITH_SL |
                                         IBV_WC_EX_WITH_DLID_PATH_BITS;

extended_poll &poll_of(ibv_cq_ex *cq) noexcept
{
    return *cq_of(ibv_cq_ex_to_cq(cq)).extended;
}

const ibv_wc &current(ibv_cq_ex *cq) noexcept
{
    return poll_of(cq).wc;
}

int take_next(ibv_cq_ex *cq)
{
    ibv_wc &wc = poll_of(cq).wc;
    const int taken = cq->context->ops.poll_cq(ibv_cq_ex_to_cq(cq), 1, &wc);
    if (taken != 1)
        return taken == 0 ? ENOENT : errno;
    cq->wr_id = wc.wr_id;
    cq->status = wc.status;
    return 0;
}

int start_poll(ibv_cq_ex *cq, ibv_poll_cq_attr *attr)
{
    if (attr->comp_mask != 0)
        return EINVAL;
    poll_of(cq).lock();
    const int error = take_next(cq);
    if (error != 0)
        poll_of(cq).unlock();
    return error;
}

ibv_cq *create(ibv_context *context, const ibv_cq_init_attr_ex &attr)
{
    constexpr std::uint32_t supported = IBV_CQ_INIT_ATTR_MASK_FLAGS | IBV_CQ_INIT_ATTR_MASK_PD;
    const std::uint32_t flags = (attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_FLAGS) != 0 ? attr.flags : 0;
    const bool single_threaded = (flags & IBV_CREATE_CQ_ATTR_SINGLE_THREADED) != 0;
    if ((attr.comp_mask & ~supported) != 0 || (flags & ~std::uint32_t{IBV_CREATE_CQ_ATTR_SINGLE_THREADED}) != 0 ||
            (attr.wc_flags & ~offered_fields) != 0)
        return fail_with(nullptr, EOPNOTSUPP);
    if ((attr.comp_mask & IBV_CQ_INIT_ATTR_MASK_PD) != 0 &&
            (attr.parent_domain == nullptr || !pd_of(attr.parent_domain).is_parent()))
        return fail_with(nullptr, EINVAL);
    if (attr.cqe > static_cast<std::uint32_t>(limits::max_cqe))
        return fail_with(nullptr, EINVAL);
    ibv_cq *cq = ibv_create_cq(
            context, static_cast<int>(attr.cqe), attr.cq_context, attr.channel, static_cast<int>(attr.comp_vector));
    if (cq == nullptr)
        return nullptr;
    const bool created = or_no_memory(false, [&] {
        cq_of(cq).extended = std::make_unique<extended_poll>(single_threaded);
        return true;
    });
    if (created)
        return cq;
    ibv_destroy_cq(cq);
    return fail_with(nullptr, ENOMEM);
}

} // namespace

namespace softrdma::abi
{

ibv_cq_ex *create_cq_ex(ibv_context *context, ibv_cq_init_attr_ex *attr)
{
    ibv_cq *const created = create(context, *attr);
    if (created == nullptr)
        return nullptr;
    ibv_cq_ex *const cq = &cq_of(created);
    cq->start_poll = start_poll;
    cq->next_poll = take_next;
    cq->end_poll = [](ibv_cq_ex *of) { poll_of(of).unlock(); };
    cq->read_opcode = [](ibv_cq_ex *of) { return current(of).opcode; };
    cq->read_vendor_err = [](ibv_cq_ex *of) { return current(of).vendor_err; };
    cq->read_wc_flags = [](ibv_cq_ex *of) { return current(of).wc_flags; };
    const auto offer = [fields = attr->wc_flags](std::uint64_t field, auto &member, auto function) {
        if ((fields & field) != 0)
            member = function;
    };
    offer(IBV_WC_EX_WITH_BYTE_LEN, cq->read_byte_len, [](ibv_cq_ex *of) { return current(of).byte_len; });
    offer(IBV_WC_EX_WITH_IMM, cq->read_imm_data, [](ibv_cq_ex *of) { return current(of).imm_data; });
    offer(IBV_WC_EX_WITH_QP_NUM, cq->read_qp_num, [](ibv_cq_ex *of) { return current(of).qp_num; });
    offer(IBV_WC_EX_WITH_SRC_QP, cq->read_src_qp, [](ibv_cq_ex *of) { return current(of).src_qp; });
    offer(IBV_WC_EX_WITH_SLID, cq->read_slid, [](ibv_cq_ex *of) { return std::uint32_t{current(of).slid}; });
    offer(IBV_WC_EX_WITH_SL, cq->read_sl, [](ibv_cq_ex *of) { return current(of).sl; });
    offer(IBV_WC_EX_WITH_DLID_PATH_BITS, cq->read_dlid_path_bits,
            [](ibv_cq_ex *of) { return current(of).dlid_path_bits; });
    return cq;
}

} // namespace softrdma::abi
