// SPDX-License-Identifier: BSD-3-Clause
#include "abi/device.hpp"
#include "cm/cm.hpp"
#include "verbs/qp_object.hpp"
#include "verbs/qp.hpp"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

using namespace softrdma;
using abi::fail_with;

namespace
{

constexpr int resolve_timeout_ms = 2000;

// Creates a queue with its own channel unless the program has specified one. It belongs to the id, its cookie.
int create_queue(rdma_cm_id *id, std::uint32_t entries, ibv_comp_channel *&channel, ibv_cq *&cq, ibv_cq *&specified)
{
    if (specified != nullptr)
        return 0;
    channel = ibv_create_comp_channel(id->verbs);
    if (channel == nullptr)
        return -1;
    cq = specified = ibv_create_cq(id->verbs, static_cast<int>(std::max(entries, 1u)), id, channel, 0);
    return cq == nullptr ? -1 : 0;
}

void destroy_queue(ibv_comp_channel *&channel, ibv_cq *&cq)
{
    if (cq != nullptr)
        ibv_destroy_cq(std::exchange(cq, nullptr));
    if (channel != nullptr)
        ibv_destroy_comp_channel(std::exchange(channel, nullptr));
}

void destroy_queues(rdma_cm_id *id)
{
    destroy_queue(id->recv_cq_channel, id->recv_cq);
    destroy_queue(id->send_cq_channel, id->send_cq);
}

int move_to(ibv_qp_state state, rdma_cm_id *id, ibv_qp *qp)
{
    ibv_qp_attr attr{};
    int mask = 0;
    attr.qp_state = state;
    if (cm::queue_pair_attributes(id_of(id), attr, mask) != 0)
        return -1;
    const int error = ibv_modify_qp(qp, &attr, mask);
    return error == 0 ? 0 : fail_with(-1, error);
}

// Moves the queue pair to INIT, or to RTS if it is for datagrams, which need no peer.
int make_ready(rdma_cm_id *id, ibv_qp *qp)
{
    if (move_to(IBV_QPS_INIT, id, qp) != 0)
        return -1;
    if (id->ps != RDMA_PS_UDP)
        return 0;
    return move_to(IBV_QPS_RTR, id, qp) != 0 ? -1 : move_to(IBV_QPS_RTS, id, qp);
}

// Destroys the queue pair for callers that cannot report an error. Waits while a live peer is inside an operation.
void destroy_blocking(ibv_qp *qp)
{
    for (bool reported = false; ibv_destroy_qp(qp) == EBUSY; reported = true) {
        if (!reported)
            fprintf(stderr,
                    "softrdma: queue pair %u: peer stopped inside an operation: waiting for it to continue or exit\n",
                    qp->qp_num);
    }
}

int rollback_qp(rdma_cm_id *id, ibv_qp *qp)
{
    const int error = errno;
    if (qp != nullptr)
        destroy_blocking(qp);
    destroy_queues(id);
    return fail_with(-1, error);
}

std::optional<ibv_qp_init_attr> endpoint_qp_of(cm_id &listener)
{
    const lock_guard guard(cm::lock());
    return listener.endpoint_qp;
}

int finish_ep(rdma_cm_id *id, const rdma_addrinfo *res, ibv_pd *pd, ibv_qp_init_attr *qp_attr)
{
    if ((res->ai_flags & RAI_PASSIVE) != 0) {
        if (rdma_bind_addr(id, res->ai_src_addr) != 0)
            return -1;
        const lock_guard guard(cm::lock());
        if (qp_attr != nullptr) {
            id_of(id).endpoint_qp = *qp_attr;
            id_of(id).endpoint_qp->qp_type = static_cast<ibv_qp_type>(res->ai_qp_type);
        }
        if (pd != nullptr)
            id->pd = pd;
        return 0;
    }
    if (rdma_resolve_addr(id, res->ai_src_addr, res->ai_dst_addr, resolve_timeout_ms) != 0 ||
            rdma_resolve_route(id, resolve_timeout_ms) != 0)
        return -1;
    if (qp_attr == nullptr)
        return 0;
    qp_attr->qp_type = static_cast<ibv_qp_type>(res->ai_qp_type);
    return rdma_create_qp(id, pd, qp_attr);
}

} // namespace

extern "C" {

int rdma_create_qp_ex(rdma_cm_id *id, ibv_qp_init_attr_ex *attr)
{
    if (!abi::usable(id_of(id).birth))
        return -1;
    if (id->qp != nullptr || id->verbs == nullptr || !is_type(attr->qp_type) || attr->qp_type != id->qp_type)
        return fail_with(-1, EINVAL);
    if ((attr->comp_mask & IBV_QP_INIT_ATTR_PD) == 0 || attr->pd == nullptr) {
        attr->comp_mask |= IBV_QP_INIT_ATTR_PD;
        attr->pd = id->pd;
    } else if (attr->pd->context != id->verbs) {
        return fail_with(-1, EINVAL);
    }
    if (attr->srq == nullptr)
        attr->srq = id->srq;
    if (create_queue(id, attr->cap.max_send_wr, id->send_cq_channel, id->send_cq, attr->send_cq) != 0 ||
            create_queue(id, attr->cap.max_recv_wr, id->recv_cq_channel, id->recv_cq, attr->recv_cq) != 0)
        return rollback_qp(id, nullptr);
    ibv_qp *qp = abi::create_managed_qp(*attr);
    if (qp == nullptr || make_ready(id, qp) != 0)
        return rollback_qp(id, qp);
    const lock_guard guard(cm::lock());
    id->pd = attr->pd;
    id->qp = qp;
    return 0;
}

int rdma_create_qp(rdma_cm_id *id, ibv_pd *pd, ibv_qp_init_attr *plain)
{
    ibv_qp_init_attr_ex attr{};
    memcpy(&attr, plain, sizeof(*plain));
    attr.comp_mask = pd != nullptr ? IBV_QP_INIT_ATTR_PD : 0;
    attr.pd = pd;
    if (rdma_create_qp_ex(id, &attr) != 0)
        return -1;
    memcpy(plain, &attr, sizeof(*plain));
    return 0;
}

void rdma_destroy_qp(rdma_cm_id *id)
{
    ibv_qp *qp = nullptr;
    {
        const lock_guard guard(cm::lock());
        qp = std::exchange(id->qp, nullptr);
    }
    if (qp != nullptr)
        destroy_blocking(qp);
    destroy_queues(id);
}

int rdma_create_srq(rdma_cm_id *id, ibv_pd *pd, ibv_srq_init_attr *attr)
{
    if (id->verbs == nullptr || id->srq != nullptr)
        return fail_with(-1, EINVAL);
    ibv_pd *domain = pd != nullptr ? pd : id->pd;
    id->srq = ibv_create_srq(domain, attr);
    if (id->srq == nullptr)
        return -1;
    id->pd = domain;
    return 0;
}

int rdma_create_srq_ex(rdma_cm_id *id, ibv_srq_init_attr_ex *attr)
{
    ibv_srq_init_attr plain{};
    memcpy(&plain, attr, sizeof(plain)); // the extended structure begins like the plain one
    const bool basic = (attr->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) == 0 || attr->srq_type == IBV_SRQT_BASIC;
    if (!basic)
        return fail_with(-1, EOPNOTSUPP);
    const bool has_pd = (attr->comp_mask & IBV_SRQ_INIT_ATTR_PD) != 0 && attr->pd != nullptr;
    return rdma_create_srq(id, has_pd ? attr->pd : nullptr, &plain);
}

void rdma_destroy_srq(rdma_cm_id *id)
{
    if (id->srq != nullptr)
        ibv_destroy_srq(std::exchange(id->srq, nullptr));
}

int rdma_create_ep(rdma_cm_id **out, rdma_addrinfo *res, ibv_pd *pd, ibv_qp_init_attr *qp_attr)
{
    rdma_cm_id *id = nullptr;
    if (rdma_create_id(nullptr, &id, nullptr, static_cast<rdma_port_space>(res->ai_port_space)) != 0)
        return -1;
    if (finish_ep(id, res, pd, qp_attr) != 0) {
        const int error = errno;
        rdma_destroy_ep(id);
        return fail_with(-1, error);
    }
    *out = id;
    return 0;
}

void rdma_destroy_ep(rdma_cm_id *id)
{
    rdma_destroy_qp(id);
    rdma_destroy_srq(id);
    rdma_destroy_id(id);
}

int rdma_get_request(rdma_cm_id *listen, rdma_cm_id **out)
{
    if (!abi::usable(id_of(listen).birth))
        return -1;
    cm_id &listener = id_of(listen);
    if (!listener.sync)
        return fail_with(-1, EINVAL);
    rdma_cm_event *event = nullptr;
    if (rdma_get_cm_event(listener.events(), &event) != 0)
        return -1;
    if (event->event != RDMA_CM_EVENT_CONNECT_REQUEST || event->status != 0) {
        const int status = event->status;
        rdma_ack_cm_event(event);
        return fail_with(-1, status != 0 ? std::abs(status) : EINVAL);
    }
    rdma_cm_id *id = event->id;
    if (auto attr = endpoint_qp_of(listener); attr && rdma_create_qp(id, listen->pd, &*attr) != 0) {
        const int error = errno;
        rdma_ack_cm_event(event);
        rdma_reject(id, nullptr, 0);
        rdma_destroy_id(id);
        return fail_with(-1, error);
    }
    if (rdma_migrate_id(id, nullptr) != 0) {
        rdma_ack_cm_event(event);
        return -1;
    }
    id->event = event;
    *out = id;
    return 0;
}

} // extern "C"
