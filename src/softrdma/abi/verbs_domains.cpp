// SPDX-License-Identifier: BSD-3-Clause
// Protection domains, parent domains, and thread domains, on which no lock of the device depends.
#include "abi/device.hpp"

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

// Returns NULL and sets errno to ENODEV or ENOMEM on error.
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

} // namespace

namespace softrdma::abi
{

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
