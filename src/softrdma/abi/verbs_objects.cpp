// SPDX-License-Identifier: BSD-3-Clause
#include "abi/device.hpp"
#include "cm/roce_connect.hpp"
#include "cm/static_connect.hpp"
#include "pmem/policy.hpp"
#include "verbs/qp_object.hpp"
#include "verbs/completion_channel.hpp"
#include "verbs/datagram_qp.hpp"
#include "verbs/mr.hpp"
#include "verbs/mw.hpp"
#include "verbs/qp.hpp"

using namespace softrdma;
using abi::fail_with;

static std::uint32_t reserve_number()
{
    return roce_connect::is_selected() ? roce_connect::reserve_number() : static_connect::reserve_number();
}

static void release_number(std::uint32_t number)
{
    roce_connect::is_selected() ? roce_connect::release_number(number) : static_connect::release_number(number);
}

extern "C" {

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

ibv_mr *ibv_reg_mr_iova2(ibv_pd *pd, void *addr, std::size_t length, std::uint64_t iova, unsigned access)
{
    if (!abi::usable(pd->context))
        return nullptr;
    return or_no_memory<ibv_mr *>(
            nullptr, [&] { return region_table::instance().add(pd, addr, length, iova, access); });
}

ibv_mr *ibv_reg_mr(ibv_pd *pd, void *addr, std::size_t length, int access)
{
    return ibv_reg_mr_iova2(pd, addr, length, reinterpret_cast<std::uintptr_t>(addr), static_cast<unsigned>(access));
}

ibv_mr *ibv_reg_mr_iova(ibv_pd *pd, void *addr, std::size_t length, std::uint64_t iova, int access)
{
    return ibv_reg_mr_iova2(pd, addr, length, iova, static_cast<unsigned>(access));
}

int ibv_dereg_mr(ibv_mr *mr)
{
    if (!abi::usable(mr->context))
        return ENODEV;
    return or_no_memory(ENOMEM, [&] {
        window_table::instance().unbind_invalidated(mr);
        return region_table::instance().remove(mr);
    });
}

int ibv_rereg_mr(ibv_mr *mr, int flags, ibv_pd *pd, void *addr, std::size_t length, int access)
{
    if (!abi::usable(mr->context))
        return IBV_REREG_MR_ERR_INPUT;
    const region_table::change change{.flags = flags, .pd = pd, .addr = addr, .length = length, .access = access};
    const int error = or_no_memory(ENOMEM, [&] {
        window_table::instance().unbind_invalidated(mr);
        const int result = region_table::instance().change_region(mr, change);
        if (result == 0)
            notify_region_changed(mr->lkey);
        return result;
    });
    return error == 0 ? 0 : fail_with(IBV_REREG_MR_ERR_INPUT, error);
}

ibv_comp_channel *ibv_create_comp_channel(ibv_context *context)
{
    if (!abi::usable(context))
        return nullptr;
    return or_no_memory<ibv_comp_channel *>(nullptr, [&]() -> ibv_comp_channel * {
        auto channel = std::make_unique<completion_channel>(context);
        if (!channel->valid())
            return nullptr;
        context_of(context).children.fetch_add(1);
        return channel.release();
    });
}

int ibv_destroy_comp_channel(ibv_comp_channel *channel)
{
    auto *c = static_cast<completion_channel *>(channel);
    if (c->has_queues())
        return EBUSY;
    context_of(channel->context).children.fetch_sub(1);
    delete c;
    return 0;
}

ibv_cq *ibv_create_cq(ibv_context *context, int cqe, void *cookie, ibv_comp_channel *channel, int vector)
{
    if (!abi::usable(context))
        return nullptr;
    if (cqe < 1 || cqe > limits::max_cqe || vector < 0 || vector >= context->num_comp_vectors)
        return fail_with(nullptr, EINVAL);
    return or_no_memory<ibv_cq *>(nullptr, [&]() -> ibv_cq * {
        auto cq = std::make_unique<completion_queue>(context, cqe, static_cast<completion_channel *>(channel), cookie);
        if (!cq->valid())
            return fail_with(nullptr, errno);
        context_of(context).children.fetch_add(1);
        return cq.release()->verbs();
    });
}

int ibv_resize_cq(ibv_cq *cq, int cqe)
{
    if (cqe < 1 || cqe > limits::max_cqe)
        return EINVAL;
    return or_no_memory(ENOMEM, [&] { return cq_of(cq).resize(cqe); });
}

int ibv_destroy_cq(ibv_cq *cq)
{
    if (!abi::usable(cq->context))
        return ENODEV;
    if (cq_of(cq).users.load() != 0)
        return EBUSY;
    cq_of(cq).drain_events();
    context_of(cq->context).children.fetch_sub(1);
    delete &cq_of(cq);
    return 0;
}

int ibv_get_cq_event(ibv_comp_channel *channel, ibv_cq **cq, void **cookie)
{
    completion_queue *fired = nullptr;
    if (!abi::usable(channel->context))
        return -1;
    auto &events = *static_cast<completion_channel *>(channel);
    events.reader.store(pthread_self(), std::memory_order_relaxed);
    if (events.take(&fired) != 0)
        return -1;
    *cq = fired->verbs();
    *cookie = fired->cq_context;
    return 0;
}

void ibv_ack_cq_events(ibv_cq *cq, unsigned events)
{
    acknowledge_events(*cq, cq->comp_events_completed, events);
}

ibv_srq *ibv_create_srq(ibv_pd *pd, ibv_srq_init_attr *attr)
{
    if (!abi::usable(pd->context))
        return nullptr;
    if (attr->attr.max_wr < 1 || attr->attr.max_wr > limits::max_qp_wr || attr->attr.max_sge > limits::max_sge)
        return fail_with(nullptr, EINVAL);
    attr->attr.srq_limit = 0;
    return or_no_memory<ibv_srq *>(nullptr, [&] { return new shared_receive_queue(pd, *attr); });
}

int ibv_modify_srq(ibv_srq *srq, ibv_srq_attr *attr, int mask)
{
    return abi::usable(srq->context) ? srq_of(srq).modify(*attr, mask) : ENODEV;
}

int ibv_query_srq(ibv_srq *srq, ibv_srq_attr *attr)
{
    srq_of(srq).query(*attr);
    return 0;
}

int ibv_destroy_srq(ibv_srq *srq)
{
    if (srq_of(srq).users.load() != 0)
        return EBUSY;
    srq_of(srq).drain_events();
    delete &srq_of(srq);
    return 0;
}

ibv_qp *ibv_create_qp(ibv_pd *pd, ibv_qp_init_attr *attr)
{
    if (!abi::usable(pd->context))
        return nullptr;
    if (!is_type(attr->qp_type))
        return fail_with(nullptr, EOPNOTSUPP);
    if (attr->qp_type == IBV_QPT_UD)
        return or_no_memory<ibv_qp *>(nullptr, [&] { return abi::create_datagram_qp(pd, *attr); });
    const std::uint32_t number = or_no_memory(0u, reserve_number);
    if (number == 0)
        return nullptr;
    const auto qp = queue_pair::create(pd, *attr, number);
    if (qp != nullptr) {
        if (roce_connect::is_selected())
            qp->roce_number = number;
        return qp->verbs();
    }
    const int error = errno;
    release_number(number);
    return fail_with(nullptr, error);
}

static int modify_qp(ibv_qp *qp, const ibv_qp_attr *attr, int mask)
{
    if (!are_known(*attr, mask))
        return EINVAL;
    if (sends_datagrams(qp))
        return object_of(qp).modify(*attr, mask);
    if (qp_of(qp).roce_number != 0)
        return roce_connect::modify(qp_of(qp), *attr, mask);
    if (const int error = (mask & IBV_QP_AV) == 0 ? 0 : static_connect::check(attr->ah_attr); error != 0)
        return error;
    const ibv_qp_state from = object_of(qp).shown_state();
    if (const int error = qp_of(qp).modify(*attr, mask); error != 0)
        return error;
    const ibv_qp_state to = object_of(qp).shown_state();
    if (to == IBV_QPS_RTR && from == IBV_QPS_INIT)
        static_connect::connect(qp_of(qp));
    else if (to == IBV_QPS_RTS && from == IBV_QPS_RTR)
        static_connect::limit_retry_timeout(qp_of(qp));
    else if (to == IBV_QPS_RESET)
        static_connect::disconnect(qp_of(qp));
    return 0;
}

int ibv_modify_qp(ibv_qp *qp, ibv_qp_attr *attr, int mask)
{
    return abi::usable(qp->context) ? or_no_memory(ENOMEM, [&] { return modify_qp(qp, attr, mask); }) : ENODEV;
}

int ibv_query_qp(ibv_qp *qp, ibv_qp_attr *attr, int, ibv_qp_init_attr *init)
{
    if (!abi::usable(qp->context))
        return ENODEV;
    object_of(qp).query(*attr, *init);
    return 0;
}

int ibv_destroy_qp(ibv_qp *qp)
{
    if (!abi::usable(qp->context))
        return ENODEV;
    if (sends_datagrams(qp))
        return abi::destroy_datagram_qp(qp);
    const auto owner = qp_of(qp).shared_from_this();
    const std::uint32_t number = qp->qp_num;
    const int error = or_no_memory(ENOMEM, [&] {
        // Acknowledges what the program has completions for: the progress thread might not have done so yet.
        owner->receiver()->received_all();
        return owner->destroy();
    });
    if (error != 0)
        return error;
    if (const std::uint32_t roce_number = owner->roce_number; roce_number != 0)
        roce_connect::release_number(roce_number);
    if (!roce_connect::is_selected())
        static_connect::release_number(number);
    owner->drain_events();
    return 0;
}

ibv_qp_ex *ibv_qp_to_qp_ex(ibv_qp *qp)
{
    return object_of(qp).batch() != nullptr ? &object_of(qp) : nullptr;
}

} // extern "C"

namespace
{

// Replaces the functions of verbs/ that post in a child of fork().
template<typename Object, typename Request>
int reject_post(Object *, Request *wr, Request **bad)
{
    *bad = wr;
    return errno = ENODEV;
}

int query_device_ex(ibv_context *, const ibv_query_device_ex_input *input, ibv_device_attr_ex *attr, std::size_t size)
{
    if ((input != nullptr && input->comp_mask != 0) || size < sizeof(ibv_device_attr))
        return EINVAL;
    ibv_device_attr_ex full{};
    abi::fill_device_attributes(full.orig_attr);
    full.device_cap_flags_ex = full.orig_attr.device_cap_flags;
    if (pmem::native_verbs())
        full.device_cap_flags_ex |=
                native::device_flush_global | native::device_flush_persistent | native::device_atomic_write;
    full.phys_port_cnt_ex = full.orig_attr.phys_port_cnt;
    memcpy(attr, &full, std::min(size, sizeof(full)));
    return 0;
}

int check_extended(const ibv_qp_init_attr_ex &attr) noexcept
{
    constexpr std::uint32_t supported =
            IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_CREATE_FLAGS;
    if ((attr.comp_mask & IBV_QP_INIT_ATTR_PD) == 0)
        return EINVAL;
    if (!is_type(attr.qp_type))
        return EOPNOTSUPP;
    const bool new_post = (attr.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
    // Multicast is not supported, so no multicast packet is ever looped back.
    const std::uint32_t flags = attr.qp_type == IBV_QPT_UD ? IBV_QP_CREATE_BLOCK_SELF_MCAST_LB : 0;
    if ((attr.comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0 && (attr.create_flags & ~flags) != 0)
        return EOPNOTSUPP;
    return (attr.comp_mask & ~supported) != 0 || (new_post && !abi::offers_send_ops(attr.qp_type, attr.send_ops_flags))
                   ? EOPNOTSUPP
                   : 0;
}

// Over TCP, a reliable queue pair that the connection manager connects needs no number that peers can reach.
ibv_qp *create_extended(ibv_qp_init_attr_ex &attr, bool managed)
{
    if (const int error = check_extended(attr); error != 0)
        return fail_with(nullptr, error);
    ibv_qp_init_attr plain{};
    memcpy(&plain, &attr, sizeof(plain)); // the extended structure begins like the plain one
    const bool needs_number = !managed || attr.qp_type == IBV_QPT_UD || roce_connect::is_selected();
    const auto managed_qp = needs_number ? nullptr : queue_pair::create(attr.pd, plain);
    ibv_qp *qp = needs_number ? ibv_create_qp(attr.pd, &plain) : managed_qp != nullptr ? managed_qp->verbs() : nullptr;
    attr.cap = plain.cap; // granted limits
    if (qp == nullptr || (attr.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) == 0 ||
            or_no_memory(false, [&] { return abi::install_post_ex(object_of(qp), attr.send_ops_flags), true; }))
        return qp;
    ibv_destroy_qp(qp);
    return fail_with(nullptr, ENOMEM);
}

} // namespace

namespace softrdma::abi
{

ibv_qp *create_managed_qp(ibv_qp_init_attr_ex &attr)
{
    return create_extended(attr, true);
}

void install_data_path(ibv_context_ops &ops) noexcept
{
    install_windows(ops);
    ops.poll_cq = poll_cq;
    ops.req_notify_cq = req_notify_cq;
    ops.post_send = post_send;
    ops.post_recv = post_recv;
    ops.post_srq_recv = post_srq_recv;
}

void reject_data_path(ibv_context_ops &ops) noexcept
{
    ops.poll_cq = [](auto...) { return fail_with(-1, ENODEV); };
    ops.req_notify_cq = [](auto...) { return ENODEV; };
    ops.post_send = reject_post;
    ops.post_recv = reject_post;
    ops.post_srq_recv = reject_post;
}

void install_extended(verbs_context &verbs) noexcept
{
    verbs.query_device_ex = query_device_ex;
    verbs.query_port = query_port;
    verbs.create_qp_ex = [](auto *context, auto *attr) {
        return abi::usable(context) ? create_extended(*attr, false) : nullptr;
    };
    verbs.advise_mr = [](auto *pd, auto advice, auto flags, auto *ranges, auto count) {
        return abi::usable(pd->context) ? advise_regions(pd, advice, flags, {ranges, count}) : ENODEV;
    };
    verbs.create_cq_ex = create_cq_ex;
    verbs.alloc_td = alloc_td;
    verbs.dealloc_td = dealloc_td;
    verbs.alloc_parent_domain = alloc_parent_domain;
}

} // namespace softrdma::abi
