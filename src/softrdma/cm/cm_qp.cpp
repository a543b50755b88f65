// SPDX-License-Identifier: BSD-3-Clause
#include "cm/cm.hpp"
#include "cm/roce_connect.hpp"
#include "pmem/policy.hpp"

#include <algorithm>
#include <cerrno>

namespace softrdma::cm
{

static int attributes(const cm_id &id, ibv_qp_attr &attr, int &mask) REQUIRES(lock())
{
    const bool peer = id.state == cm_state::replied || id.state == cm_state::requested ||
                      id.state == cm_state::accepted || id.state == cm_state::connected ||
                      id.state == cm_state::disconnect_received;
    // In the InfiniBand CM, a message has the starting PSN of requests to its sender; over TCP, that of its requests.
    const bool over_roce = id.link != nullptr;
    // Before accept() the program's own parameters are unknown, so those of the request are used.
    const bool unaccepted = id.state == cm_state::requested && id.local.qpn == 0;
    const auto responder = unaccepted ? id.request.responder_resources : id.local.responder_resources;
    const auto initiator = unaccepted   ? id.request.initiator_depth
                           : !id.active ? id.local.initiator_depth
                                        : std::min(id.local.initiator_depth, id.remote.responder_resources);
    mask = IBV_QP_STATE;
    switch (attr.qp_state) {
    case IBV_QPS_INIT:
        mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
        attr.pkey_index = 0;
        attr.port_num = 1;
        attr.qp_access_flags = peer ? IBV_ACCESS_REMOTE_WRITE : 0;
        if (peer && responder > 0)
            attr.qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
        if (peer && pmem::native_verbs())
            attr.qp_access_flags |= native::access_flush_global | native::access_flush_persistent;
        return 0;
    case IBV_QPS_RTR:
        if (!peer)
            return EINVAL;
        mask |= IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                IBV_QP_MIN_RNR_TIMER;
        attr.ah_attr = detail::address_of_peer(id);
        attr.path_mtu = id.path_mtu;
        attr.dest_qp_num = id.remote.qpn;
        attr.rq_psn = over_roce ? id.local.psn : id.remote.psn;
        attr.max_dest_rd_atomic = responder;
        attr.min_rnr_timer = 0;
        return 0;
    case IBV_QPS_RTS:
        if (!peer)
            return EINVAL;
        mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC;
        attr.timeout = id.ack_timeout.value_or(id.path_ack_timeout);
        attr.retry_cnt = std::max(id.local.retry_count, id.remote.retry_count);
        attr.rnr_retry = id.remote.rnr_retry_count; // the peer's retry count applies to local sends
        attr.sq_psn = over_roce ? id.remote.psn : id.local.psn;
        attr.max_rd_atomic = initiator;
        return 0;
    default:
        return EINVAL;
    }
}

int queue_pair_attributes(cm_id &id, ibv_qp_attr &attr, int &mask)
{
    const lock_guard guard(lock());
    const int error = detail::is_datagram(id) ? detail::datagram_attributes(attr, mask) : attributes(id, attr, mask);
    return error == 0 ? 0 : detail::fail(error);
}

int detail::modify_to_connected(cm_id &id)
try {
    for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
        ibv_qp_attr attr{};
        int mask = 0;
        attr.qp_state = state;
        int error = attributes(id, attr, mask);
        if (error == 0)
            error = id.link != nullptr ? roce_connect::modify(qp_of(id.qp), attr, mask)
                                       : qp_of(id.qp).modify(attr, mask);
        if (error != 0)
            return fail(error);
    }
    return 0;
} catch (const std::bad_alloc &) {
    return fail(ENOMEM);
}

void detail::modify_to_error(cm_id &id)
{
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_ERR;
    if (id.qp != nullptr && !is_datagram(id))
        qp_of(id.qp).modify(attr, IBV_QP_STATE);
}

} // namespace softrdma::cm
