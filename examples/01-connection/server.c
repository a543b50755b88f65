// SPDX-License-Identifier: BSD-3-Clause
/*
 * Accepts one client, exchanges greetings, and disconnects.
 *
 *     cc server.c -o server $(pkg-config --cflags --libs librpma)
 */
#include "../common/common.h"

#include <librpma.h>

static const struct program program = {
        .purpose = "Accepts one client, exchanging a greeting, and disconnects.",
        .operands = "",
        .operands_help = "",
        .retry_s = RETRY_NOT_OFFERED,
};

int main(int argc, char **argv)
{
    const struct arguments args = arguments_parse(argc, argv, &program);
    struct ibv_context *device = NULL;
    struct rpma_peer *peer = NULL;
    struct rpma_ep *ep = NULL;
    struct rpma_conn_req *req = NULL;
    struct rpma_conn *conn = NULL;
    struct rpma_conn_private_data received = {0};
    char greeting[] = "Hello client!";
    const struct rpma_conn_private_data pdata = {.ptr = greeting, .len = sizeof(greeting)};

    /* Device with this address. */
    int status = explain_device(&args, rpma_utils_get_ibv_context(args.addr, RPMA_UTIL_IBV_CONTEXT_LOCAL, &device));
    if (status == STATUS_OK)
        status = check("rpma_peer_new", rpma_peer_new(device, &peer));

    /* A request waits at the endpoint until it is accepted, or deleted, which rejects it. */
    if (status == STATUS_OK)
        status = explain_listening(&args, rpma_ep_listen(peer, args.addr, args.port, &ep));
    if (status == STATUS_OK)
        status = wait_for_request(&args, ep);
    if (status == STATUS_OK)
        status = check("rpma_ep_next_conn_req", rpma_ep_next_conn_req(ep, NULL, &req));
    if (status == STATUS_OK)
        status = check("rpma_conn_req_connect", rpma_conn_req_connect(&req, &pdata, &conn));
    if (status == STATUS_OK) /* rpma_conn_next_event, with a time limit */
        status = expect_event(&args, conn, RPMA_CONN_ESTABLISHED);

    /* Private data of the client's request. */
    if (status == STATUS_OK)
        status = check("rpma_conn_get_private_data", rpma_conn_get_private_data(conn, &received));
    if (status == STATUS_OK)
        status = print_text("Received a message", received.ptr, received.len);

    /* Both sides must disconnect: the server first, then the client after the event. */
    if (status == STATUS_OK)
        status = check("rpma_conn_disconnect", rpma_conn_disconnect(conn));
    if (status == STATUS_OK)
        status = expect_event(&args, conn, RPMA_CONN_CLOSED);

    status |= check("rpma_conn_delete", rpma_conn_delete(&conn));
    status |= check("rpma_conn_req_delete", rpma_conn_req_delete(&req));
    status |= check("rpma_ep_shutdown", rpma_ep_shutdown(&ep));
    status |= check("rpma_peer_delete", rpma_peer_delete(&peer));
    return status;
}
