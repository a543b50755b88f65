// SPDX-License-Identifier: BSD-3-Clause
#include "abi/device.hpp"
#include "verbs/datagram_qp.hpp"
#include "verbs/mw.hpp"
#include "verbs/qp.hpp"

using namespace softrdma;

namespace
{

ibv_mw *alloc_mw(ibv_pd *pd, ibv_mw_type type)
{
    if (!abi::usable(pd->context))
        return nullptr;
    return or_no_memory<ibv_mw *>(nullptr, [&] { return window_table::instance().add(pd, type); });
}

int dealloc_mw(ibv_mw *mw)
{
    if (!abi::usable(mw->context))
        return ENODEV;
    return or_no_memory(ENOMEM, [&] { return window_table::instance().remove(mw); });
}

int bind_mw(ibv_qp *qp, ibv_mw *mw, ibv_mw_bind *bind)
{
    if (!abi::usable(qp->context))
        return ENODEV;
    if (sends_datagrams(qp) || (bind->bind_info.mw_access_flags & IBV_ACCESS_ZERO_BASED) != 0)
        return EINVAL;
    const std::uint32_t key = ibv_inc_rkey(mw->rkey);
    const int error = or_no_memory(ENOMEM, [&] { return qp_of(qp).post_bind(*bind, key); });
    if (error == 0)
        mw->rkey = key;
    return error;
}

} // namespace

namespace softrdma::abi
{

void install_windows(ibv_context_ops &ops) noexcept
{
    ops.alloc_mw = alloc_mw;
    ops.dealloc_mw = dealloc_mw;
    ops.bind_mw = bind_mw;
}

} // namespace softrdma::abi
