// SPDX-License-Identifier: BSD-3-Clause
#include "rdma/verbs.hpp"

#include "log.hpp"

namespace rpma::rdma
{

namespace
{

// Functions of libibverbs return an errno value, a few of them -1 with errno set.
int errno_of(int returned)
{
    return returned > 0 ? returned : errno;
}

errc check(int returned, const char *call, const char *function_name = __builtin_FUNCTION())
{
    if (returned == 0) [[likely]]
        return errc::ok;
    return log::provider_error(errno_of(returned), call, "", __FILE__, __LINE__, function_name);
}

} // namespace

errc destroy_pd(const library &lib, ibv_pd *pd)
{
    return check(lib.ibv_dealloc_pd(pd), "ibv_dealloc_pd");
}
errc destroy_mr(const library &lib, ibv_mr *mr)
{
    return check(lib.ibv_dereg_mr(mr), "ibv_dereg_mr");
}
errc destroy_cq(const library &lib, ibv_cq *cq)
{
    return check(lib.ibv_destroy_cq(cq), "ibv_destroy_cq");
}
errc destroy_srq(const library &lib, ibv_srq *srq)
{
    return check(lib.ibv_destroy_srq(srq), "ibv_destroy_srq");
}
errc arm_cq(ibv_cq *cq)
{
    return check(ibv_req_notify_cq(cq, 0), "ibv_req_notify_cq");
}

errc destroy_comp_channel(const library &lib, ibv_comp_channel *channel)
{
    return check(lib.ibv_destroy_comp_channel(channel), "ibv_destroy_comp_channel");
}

result<pd_handle> alloc_pd(ibv_context *context)
{
    const library &lib = library::of(context);
    // A provider may fail without setting errno: clears an older error.
    const int before = errno;
    errno = 0;
    if (ibv_pd *const pd = lib.ibv_alloc_pd(context); pd != nullptr) {
        errno = before;
        return pd_handle(lib, pd);
    }
    if (errno == ENOMEM)
        return errc::nomem;
    if (errno == 0) {
        errno = before;
        RPMA_LOG_ERROR("ibv_alloc_pd() failed without an error code\n");
        return errc::unknown;
    }
    return log::provider_error(errno, "ibv_alloc_pd");
}

result<mr_handle> register_memory(ibv_pd *pd, void *ptr, std::size_t size, int access)
{
    const library &lib = library::of(pd->context);
    // The parentheses prevent the expansion of the macro of that name.
    ibv_mr *const mr = (lib.ibv_reg_mr)(pd, ptr, size, access);
    if (mr == nullptr)
        return errc::provider;
    return mr_handle(lib, mr);
}

errc advise_memory(ibv_mr *mr, std::size_t offset, std::uint32_t length, int advice, std::uint32_t flags)
{
    ibv_sge range{reinterpret_cast<std::uintptr_t>(mr->addr) + offset, length, mr->lkey};
    const int returned = ibv_advise_mr(mr->pd, static_cast<ibv_advise_mr_advice>(advice), flags, &range, 1);
    if (returned == 0)
        return errc::ok;
    const int error = errno_of(returned);
    const errc failed = log::provider_error(error, "ibv_advise_mr");
    if (error == EOPNOTSUPP || error == ENOTSUP)
        return errc::nosupp;
    return error == EFAULT || error == EINVAL ? errc::inval : failed;
}

result<comp_channel_handle> create_comp_channel(ibv_context *context)
{
    const library &lib = library::of(context);
    ibv_comp_channel *const channel = lib.ibv_create_comp_channel(context);
    if (channel == nullptr)
        return log::provider_error(errno, "ibv_create_comp_channel");
    return comp_channel_handle(lib, channel);
}

result<cq_handle> create_cq(ibv_context *context, int entries, ibv_comp_channel *channel)
{
    const library &lib = library::of(context);
    cq_handle cq(lib, lib.ibv_create_cq(context, entries, nullptr, channel, 0));
    if (!cq)
        return log::provider_error(errno, "ibv_create_cq");
    RPMA_RETURN_IF_ERROR(arm_cq(cq.get()));
    return cq;
}

result<srq_handle> create_srq(ibv_pd *pd, std::uint32_t max_receives)
{
    ibv_srq_init_attr attributes{};
    attributes.attr.max_wr = max_receives;
    attributes.attr.max_sge = 1;
    const library &lib = library::of(pd->context);
    ibv_srq *const srq = lib.ibv_create_srq(pd, &attributes);
    if (srq == nullptr)
        return log::provider_error(errno, "ibv_create_srq");
    return srq_handle(lib, srq);
}

ibv_qp_ex *extended(ibv_qp *qp)
{
    return library::of(qp->context).ibv_qp_to_qp_ex(qp);
}

result<ibv_cq *> next_completion_event(ibv_comp_channel *channel)
{
    ibv_cq *cq = nullptr;
    void *cq_context = nullptr;
    const library &lib = library::of(channel->context);
    const int before = errno;
    while (lib.ibv_get_cq_event(channel, &cq, &cq_context) != 0) {
        if (errno == EINTR) {
            errno = before;
            continue;
        }
        if (const int error = errno; error != EAGAIN && error != EWOULDBLOCK && error != ENODATA) {
            RPMA_LOG_WARNING("ibv_get_cq_event() failed: %s\n", log::errno_text(error).c_str());
            errno = error;
        }
        return errc::no_completion;
    }
    lib.ibv_ack_cq_events(cq, 1);
    return cq;
}

} // namespace rpma::rdma
