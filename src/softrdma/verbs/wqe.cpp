// SPDX-License-Identifier: BSD-3-Clause
#include "verbs/wqe.hpp"
#include "pmem/policy.hpp"
#include "probe.hpp"

#include <cerrno>

namespace softrdma
{

static std::span<const ibv_sge> list_of(const ibv_send_wr &wr) noexcept
{
    return {wr.sg_list, static_cast<std::size_t>(wr.num_sge)};
}

std::uint64_t length_of(std::span<const ibv_sge> list) noexcept
{
    std::uint64_t length = 0;
    for (const ibv_sge &sge : list)
        length += sge.length;
    return length;
}

void wqe::enter(wqe_state next) noexcept
{
    SOFTRDMA_ASSERT(may_follow(state, next));
    state = next;
    STATIC_PROBE(softrdma, wqe_state, 2, wr_id, state);
}

int check_wr(const ibv_send_wr &wr, const ibv_qp_cap &cap) noexcept
{
    if (!is_opcode(wr.opcode))
        return EOPNOTSUPP;
    const wr_op_info &info = info_of(wr.opcode);
    if (info.args == wr_args::flush) // struct ibv_send_wr has no members for its arguments
        return EINVAL;
    if (!info.known || (info.native && !pmem::native_verbs()))
        return EOPNOTSUPP;
    if (wr.num_sge < 0 || !takes_sges(cap, static_cast<std::size_t>(wr.num_sge)))
        return EINVAL;
    if (info.local())
        return wr.opcode != IBV_WR_BIND_MW || may_be_bound(wr.bind_mw.mw, wr.bind_mw.rkey) ? 0 : EINVAL;
    const bool copies = (wr.send_flags & IBV_SEND_INLINE) != 0;
    return copies && !takes_inline(cap, wr.opcode, length_of(list_of(wr))) ? EINVAL : 0;
}

void wqe::set_sges(std::span<const ibv_sge> list) noexcept
{
    SOFTRDMA_ASSERT(list.size() <= data.sges.size()); // limit of every queue pair
    std::copy(list.begin(), list.end(), data.sges.begin());
    has_sges(list.size(), length_of(list));
}

void wqe::add_inline(const void *from, std::size_t len) noexcept
{
    SOFTRDMA_ASSERT(length + len <= data.inlined.size()); // takes_inline() has accepted the length
    if (len > 0)
        memcpy(data.inlined.data() + length, from, len);
    length += static_cast<std::uint32_t>(len);
}

void wqe::set_inline(std::span<const ibv_sge> list) noexcept
{
    has_sges(0, 0);
    flags |= IBV_SEND_INLINE;
    for (const ibv_sge &sge : list)
        add_inline(reinterpret_cast<const void *>(sge.addr), sge.length);
}

void wqe::set_inline(std::span<const ibv_data_buf> list) noexcept
{
    has_sges(0, 0);
    flags |= IBV_SEND_INLINE;
    for (const ibv_data_buf &segment : list)
        add_inline(segment.addr, segment.length);
}

void wqe::set(const ibv_send_wr &wr) noexcept
{
    begin(wr.wr_id, wr.send_flags, wr.opcode);
    const wr_op_info &i = info();
    if (i.immediate)
        imm_data = wr.imm_data;
    if (wr.opcode == IBV_WR_BIND_MW)
        return set_bind(wr.bind_mw.rkey, wr.bind_mw.bind_info);
    if (i.invalidates || i.local())
        rkey = wr.invalidate_rkey;
    if (i.local())
        return;
    if (i.atomic()) {
        set_remote(wr.wr.atomic.remote_addr, wr.wr.atomic.rkey);
        args.atomic = {wr.wr.atomic.compare_add, wr.wr.atomic.swap};
    } else if (!i.message()) {
        set_remote(wr.wr.rdma.remote_addr, wr.wr.rdma.rkey);
    }
    if ((wr.send_flags & IBV_SEND_INLINE) != 0)
        set_inline(list_of(wr));
    else if (wr.num_sge == 1)
        set_sge(wr.sg_list->addr, wr.sg_list->length, wr.sg_list->lkey);
    else
        set_sges(list_of(wr));
}

} // namespace softrdma
