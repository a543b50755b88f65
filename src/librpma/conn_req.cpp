// SPDX-License-Identifier: BSD-3-Clause
#include "conn_req.hpp"

#include "boundary.hpp"
#include "conn.hpp"
#include "log.hpp"
#include "rdma/work_request.hpp"

using namespace rpma;

result<rpma_conn_req *> rpma_conn_req::create_outgoing(
        const rpma_peer &peer, const char *addr, const char *port, const rpma_conn_cfg &cfg)
{
    const conn_settings settings(cfg);
    RPMA_RETURN_IF_ERROR(settings.check());
    RPMA_ASSIGN_OR_RETURN(const retry_limits limits, retry_limits::from_environment());

    RPMA_ASSIGN_OR_RETURN(
            const rdma::addrinfo_handle names, rdma::resolve_name(peer.library(), addr, port, rdma::side::active));
    conn_parts parts;
    RPMA_ASSIGN_OR_RETURN(parts.id, rdma::resolve_route(names, settings.timeout_ms));
    RPMA_RETURN_IF_ERROR(parts.limit(limits));
    RPMA_RETURN_IF_ERROR(parts.create_queues(peer, settings));
    rdma::log_gids(parts.id.get());

    auto *const req = new rpma_conn_req(peer, std::move(parts), {});
    if (req == nullptr)
        return errc::nomem;
    RPMA_LOG_NOTICE("requesting a connection to %s:%s\n", addr, port);
    return req;
}

result<rpma_conn_req *> rpma_conn_req::create_incoming(
        const rpma_peer &peer, const rdma_cm_event &event, const rpma_conn_cfg &cfg)
{
    conn_parts parts;
    parts.id = rdma::id_handle(peer.library(), event.id);
    parts.reject_on_close = true;

    const conn_settings settings(cfg);
    RPMA_RETURN_IF_ERROR(settings.check());
    RPMA_ASSIGN_OR_RETURN(const retry_limits limits, retry_limits::from_environment());
    RPMA_RETURN_IF_ERROR(parts.limit(limits));
    RPMA_RETURN_IF_ERROR(parts.create_queues(peer, settings));
    // The listener's channel also receives other events, and the listener can be shut down before the connection.
    RPMA_RETURN_IF_ERROR(parts.move_to_own_channel());
    RPMA_ASSIGN_OR_RETURN(class private_data data,
            rpma::private_data::copy(event.param.conn.private_data, event.param.conn.private_data_len));
    rdma::log_gids(parts.id.get());

    auto *const req = new rpma_conn_req(peer, std::move(parts), std::move(data));
    if (req == nullptr)
        return errc::nomem;
    return req;
}

result<rpma_conn *> rpma_conn_req::connect(const rpma_conn_private_data *pdata)
{
    const bool incoming = parts_.reject_on_close;
    if (!incoming)
        RPMA_RETURN_IF_ERROR(parts_.move_to_own_channel());
    RPMA_ASSIGN_OR_RETURN(flush flush, flush::create(peer_, qp(), parts_.native_ops));
    auto *const conn = new rpma_conn(std::move(parts_), std::move(flush), std::move(private_data_));
    if (conn == nullptr)
        return errc::nomem;
    const errc started = incoming ? conn->accept(pdata) : conn->connect(pdata);
    if (started != errc::ok) {
        delete conn;
        return started;
    }
    return conn;
}

namespace
{

bool valid(const rpma_conn_private_data *pdata)
{
    return pdata == nullptr || (pdata->ptr != nullptr && pdata->len != 0);
}

} // namespace

extern "C" {

int rpma_conn_req_new(struct rpma_peer *peer, const char *addr, const char *port, const struct rpma_conn_cfg *cfg,
        struct rpma_conn_req **req_ptr)
{
    if (peer == nullptr || addr == nullptr || port == nullptr || req_ptr == nullptr)
        return RPMA_E_INVAL;
    const rpma_conn_cfg &settings = cfg != nullptr ? *cfg : default_conn_cfg;
    return return_handle(rpma_conn_req::create_outgoing(*peer, addr, port, settings), req_ptr);
}

int rpma_conn_req_delete(struct rpma_conn_req **req_ptr)
{
    return close_and_delete(req_ptr);
}

int rpma_conn_req_connect(
        struct rpma_conn_req **req_ptr, const struct rpma_conn_private_data *pdata, struct rpma_conn **conn_ptr)
{
    if (req_ptr == nullptr || *req_ptr == nullptr)
        return RPMA_E_INVAL;
    if (conn_ptr == nullptr || !valid(pdata)) {
        (void)close_and_delete(req_ptr);
        return RPMA_E_INVAL;
    }
    const int connected = return_handle((*req_ptr)->connect(pdata), conn_ptr);
    const errno_guard keep_errno;
    (void)close_and_delete(req_ptr);
    return connected;
}

int rpma_conn_req_recv(
        struct rpma_conn_req *req, struct rpma_mr_local *dst, size_t offset, size_t len, const void *op_context)
{
    if (req == nullptr || dst == nullptr || !dst->can_transfer(offset, len))
        return RPMA_E_INVAL;
    ibv_sge sge = dst->sge(offset, len);
    return rdma::post_receive(req->qp(), &sge, op_context);
}

int rpma_conn_req_get_private_data(const struct rpma_conn_req *req, struct rpma_conn_private_data *pdata)
{
    if (req == nullptr || pdata == nullptr)
        return RPMA_E_INVAL;
    *pdata = req->private_data();
    return 0;
}

} // extern "C"
