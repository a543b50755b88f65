// SPDX-License-Identifier: BSD-3-Clause
// Resolution of datagram services (RDMA_PS_UDP): one message requests a queue pair number, one contains it.
#include "base/gid_table.hpp"
#include "base/settings.hpp"
#include "cm/cm_roce.hpp"

#include <algorithm>
#include <cerrno>

namespace softrdma::cm
{

static int assign(cm_id &id, const rdma_conn_param *param, std::size_t field) REQUIRES(lock())
{
    const void *data = param != nullptr ? param->private_data : nullptr;
    const std::size_t length = param != nullptr ? param->private_data_len : 0;
    return id.local.data.assign(data, length, settings().exact_private_data ? length : field) ? 0 : EINVAL;
}

static void end_exchange(cm_id &id) REQUIRES(lock())
{
    id.state = cm_state::closed;
    id.end_path();
    id.path.reset();
}

int detail::prepare_resolve_request(cm_id &id, const rdma_conn_param *param)
{
    if (const int error = assign(id, param, resolve_request_private_size); error != 0)
        return fail(error);
    id.local.qpn = 0;
    return 0;
}

int detail::send_qpn(cm_id &id, const rdma_conn_param *param)
{
    if (const int error = assign(id, param, resolve_reply_private_size); error != 0)
        return fail(error);
    if (id.qp == nullptr && (param == nullptr || param->qp_num == 0 || param->qp_num > psn_mask))
        return fail(EINVAL);
    id.local.qpn = id.qp != nullptr ? id.qp->qp_num : param->qp_num;
    if (id.link != nullptr) {
        over_roce::reply(id);
    } else {
        id.local.key = id.remote.key;
        id.path->send_control(opcode::resolve_reply, encode(id.local));
    }
    end_exchange(id);
    return 0;
}

void detail::read_peer_qpn(cm_id &id, std::uint32_t qkey)
{
    end_exchange(id);
    queue_established(id, address_of_peer(id), qkey);
}

void detail::not_resolved(cm_id &id, int status)
{
    end_exchange(id);
    queue_event(id, RDMA_CM_EVENT_UNREACHABLE, status);
}

ibv_ah_attr detail::address_of_peer(const cm_id &id)
{
    const auto &gids = gid_table();
    const auto local = std::find_if(gids.begin(), gids.end(),
            [&](const gid_entry &entry) { return same(entry.gid, id.route.addr.addr.ibaddr.sgid); });
    ibv_ah_attr attr{};
    attr.port_num = 1;
    attr.is_global = 1;
    attr.grh.dgid = id.route.addr.addr.ibaddr.dgid;
    attr.grh.sgid_index = static_cast<std::uint8_t>(local == gids.end() ? 0 : local - gids.begin());
    attr.grh.hop_limit = 64;
    attr.grh.traffic_class = id.traffic_class;
    return attr;
}

int detail::datagram_attributes(ibv_qp_attr &attr, int &mask)
{
    mask = IBV_QP_STATE;
    switch (attr.qp_state) {
    case IBV_QPS_INIT:
        mask |= IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
        attr.pkey_index = 0;
        attr.port_num = 1;
        attr.qkey = RDMA_UDP_QKEY;
        return 0;
    case IBV_QPS_RTR:
        return 0;
    case IBV_QPS_RTS:
        mask |= IBV_QP_SQ_PSN;
        attr.sq_psn = 0;
        return 0;
    default:
        return EINVAL;
    }
}

} // namespace softrdma::cm
