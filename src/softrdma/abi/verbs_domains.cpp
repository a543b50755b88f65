// SPDX-License-Identifier: BSD-3-Clause
// Protection domains, parent domains, thread domains, on which no lock of the device depends, and memory windows.
#include "abi/device.hpp"
#include "verbs/datagram_qp.hpp"
#include "verbs/mw.hpp"
#include "verbs/qp.hpp"

using namespace softrdma;
using abi::fail_with;

namespace
{

struct thread_domain : ibv_td {
    std::atomic<int> users{0};
};

thread_domain &td_of(ibv_td *td) noexcept
{
    return *static_cast<thread_domain *>(td);
}

template<typename Domain, typename... Args>
Domain *create(ibv_context *context, Args &...args)
{
    if (!abi::usable(context))
        return nullptr;
    auto *domain = or_no_memory<Domain *>(nullptr, [&] { return new Domain(args...); });
    if (domain == nullptr)
        return nullptr;
    domain->context = context;
    context_of(context).children.fetch_add(1);
    return domain;
}

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

ibv_td *alloc_td(ibv_context *context, ibv_td_init_attr *attr)
{
    return attr->comp_mask != 0 ? fail_with(nullptr, EINVAL) : create<thread_domain>(context);
}

int dealloc_td(ibv_td *td)
{
    if (td_of(td).users.load() != 0)
        return EBUSY;
    context_of(td->context).children.fetch_sub(1);
    delete &td_of(td);
    return 0;
}

// Ignores the allocators of a program: they are for buffers that this device lacks.
ibv_pd *alloc_parent_domain(ibv_context *context, ibv_parent_domain_init_attr *attr)
{
    constexpr std::uint32_t supported = IBV_PARENT_DOMAIN_INIT_ATTR_ALLOCATORS | IBV_PARENT_DOMAIN_INIT_ATTR_PD_CONTEXT;
    if ((attr->comp_mask & ~supported) != 0 || attr->pd == nullptr || pd_of(attr->pd).is_parent())
        return fail_with(nullptr, EINVAL);
    auto *pd = create<protection_domain>(context, pd_of(attr->pd), attr->td);
    if (pd == nullptr)
        return nullptr;
    pd_of(attr->pd).children.fetch_add(1);
    if (attr->td != nullptr)
        td_of(attr->td).users.fetch_add(1);
    return pd;
}

} // namespace softrdma::abi

extern "C" {

ibv_pd *ibv_alloc_pd(ibv_context *context)
{
    return create<protection_domain>(context);
}

int ibv_dealloc_pd(ibv_pd *pd)
{
    protection_domain &domain = pd_of(pd);
    if (domain.children.load() != 0)
        return EBUSY;
    if (domain.is_parent())
        domain.extends->children.fetch_sub(1);
    if (domain.thread != nullptr)
        td_of(domain.thread).users.fetch_sub(1);
    context_of(pd->context).children.fetch_sub(1);
    delete &domain;
    return 0;
}

} // extern "C"
