// SPDX-License-Identifier: BSD-3-Clause
#include "verbs/qp_object.hpp"
#include "verbs/shared_receive_queue.hpp"

#include <algorithm>
#include <cerrno>
#include <cstddef>

namespace softrdma
{

static_assert(offsetof(ibv_qp_ex, qp_base) == 0);

qp_object::qp_object(ibv_pd *pd, const ibv_qp_init_attr &attr) : native::qp_block{}, init_(attr)
{
    if (attr.srq != nullptr) // the limits of the SRQ apply to receives
        init_.cap.max_recv_wr = init_.cap.max_recv_sge = 0;
    qp_base.context = pd->context;
    qp_base.qp_context = attr.qp_context;
    qp_base.pd = pd;
    qp_base.send_cq = attr.send_cq;
    qp_base.recv_cq = attr.recv_cq;
    qp_base.srq = attr.srq;
    qp_base.qp_type = attr.qp_type;
    qp_base.state = IBV_QPS_RESET;
    pthread_mutex_init(&qp_base.mutex, nullptr);
    pthread_cond_init(&qp_base.cond, nullptr);
    pd_of(pd).children.fetch_add(1);
    cq_of(attr.send_cq).users.fetch_add(1);
    cq_of(attr.recv_cq).users.fetch_add(1);
    cq_of(attr.send_cq).expect(init_.cap.max_send_wr);
    cq_of(attr.recv_cq).expect(init_.cap.max_recv_wr);
    if (attr.srq != nullptr)
        srq_of(attr.srq).users.fetch_add(1);
}

qp_object::~qp_object()
{
    if (holds_) // creation failed
        release_objects();
    pthread_cond_destroy(&qp_base.cond);
    pthread_mutex_destroy(&qp_base.mutex);
}

void qp_object::release_objects() noexcept
{
    holds_ = false;
    cq_of(qp_base.send_cq).expect(-std::int64_t{init_.cap.max_send_wr});
    cq_of(qp_base.recv_cq).expect(-std::int64_t{init_.cap.max_recv_wr});
    pd_of(qp_base.pd).children.fetch_sub(1);
    cq_of(qp_base.send_cq).users.fetch_sub(1);
    cq_of(qp_base.recv_cq).users.fetch_sub(1);
    if (qp_base.srq != nullptr)
        srq_of(qp_base.srq).users.fetch_sub(1);
}

void qp_object::drain_events()
{
    wait_for_acknowledgments(qp_base, qp_base.events_completed, context_of(qp_base.context).async.forget(events_));
}

int check_limits(const ibv_qp_init_attr &attr) noexcept
{
    const ibv_qp_cap &cap = attr.cap;
    const bool sends = cap.max_send_wr <= limits::max_qp_wr && cap.max_send_sge <= limits::max_sge &&
                       cap.max_inline_data <= limits::max_inline;
    // With a shared receive queue the receive capacities are ignored.
    const bool receives =
            attr.srq != nullptr || (cap.max_recv_wr <= limits::max_qp_wr && cap.max_recv_sge <= limits::max_sge);
    return attr.send_cq == nullptr || attr.recv_cq == nullptr || !sends || !receives ? EINVAL : 0;
}

void grant_inline_space(ibv_qp_cap &cap) noexcept
{
    const auto space = cap.max_send_sge * static_cast<std::uint32_t>(sizeof(ibv_sge));
    cap.max_inline_data = std::max(cap.max_inline_data, std::min<std::uint32_t>(space, limits::max_inline));
}

} // namespace softrdma
