// SPDX-License-Identifier: BSD-3-Clause
#include "connection.h"

#include <errno.h>

#include "events.h"
#include "explain.h"
#include "status.h"

int open_peer(const struct arguments *args, enum rpma_util_ibv_context_type side, struct rpma_peer **peer)
{
    struct ibv_context *device = NULL;
    errno = 0;
    const int status = explain_device(args, rpma_utils_get_ibv_context(args->addr, side, &device));
    return status ? status : check("rpma_peer_new", rpma_peer_new(device, peer));
}

int listen_for_clients(const struct arguments *args, struct rpma_peer *peer, struct rpma_ep **ep)
{
    errno = 0;
    return explain_listening(args, rpma_ep_listen(peer, args->addr, args->port, ep));
}

int take_request(
        const struct arguments *args, struct rpma_ep *ep, const struct rpma_conn_cfg *cfg, struct rpma_conn_req **req)
{
    const int status = wait_for_request(args, ep);
    return status ? status : check("rpma_ep_next_conn_req", rpma_ep_next_conn_req(ep, cfg, req));
}

int wait_until_established(const struct arguments *args, struct rpma_conn *conn)
{
    return expect_event(args, conn, RPMA_CONN_ESTABLISHED);
}

int accept_one_client(const struct arguments *args, struct rpma_peer *peer, const struct rpma_conn_cfg *cfg,
        const struct rpma_conn_private_data *pdata, inspect_request *inspect, void *context, struct rpma_conn **conn)
{
    struct rpma_ep *ep = NULL;
    struct rpma_conn_req *req = NULL;

    int status = listen_for_clients(args, peer, &ep);
    if (status == STATUS_OK)
        status = take_request(args, ep, cfg, &req);
    if (status == STATUS_OK && inspect)
        status = inspect(req, context);
    if (status == STATUS_OK)
        status = check("rpma_conn_req_connect", rpma_conn_req_connect(&req, pdata, conn));
    if (status == STATUS_OK)
        status = wait_until_established(args, *conn);

    status |= check("rpma_conn_req_delete", rpma_conn_req_delete(&req));
    status |= check("rpma_ep_shutdown", rpma_ep_shutdown(&ep));
    return status;
}

int connect_to_server(const struct arguments *args, struct rpma_peer *peer, const struct rpma_conn_cfg *cfg,
        const struct rpma_conn_private_data *pdata, struct rpma_conn **conn)
{
    struct rpma_conn_req *req = NULL;
    enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
    int64_t deadline_ms = 0;
    int status;

    do {
        errno = 0;
        status = explain_request(args, rpma_conn_req_new(peer, args->addr, args->port, cfg, &req));
        if (status == STATUS_OK)
            status = check("rpma_conn_req_connect", rpma_conn_req_connect(&req, pdata, conn));
        if (status == STATUS_OK)
            status = wait_for_event(args, *conn);
        if (status == STATUS_OK)
            status = check("rpma_conn_next_event", rpma_conn_next_event(*conn, &event));
    } while (try_again(args, event, &deadline_ms, conn, &status));
    return status;
}

int disconnect(const struct arguments *args, struct rpma_conn *conn)
{
    const int status = check("rpma_conn_disconnect", rpma_conn_disconnect(conn));
    return status ? status : expect_event(args, conn, RPMA_CONN_CLOSED);
}

int wait_for_disconnect(const struct arguments *args, struct rpma_conn *conn)
{
    const int status = expect_event(args, conn, RPMA_CONN_CLOSED);
    return status ? status : check("rpma_conn_disconnect", rpma_conn_disconnect(conn));
}
