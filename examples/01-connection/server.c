// SPDX-License-Identifier: BSD-3-Clause
/*
 * Accepts one client, exchanges greetings, and disconnects.
 *
 *     cc server.c -o server $(pkg-config --cflags --libs librpma)
 */
#include "../common/common.h"

#include <librpma.h>

/* Accepts one client. Each step runs only if the steps before it succeeded. Returns an exit status. */
static int exchange_greetings(const struct arguments *args)
{
    char greeting[] = "Hello client!";
    const struct rpma_conn_private_data pdata = {.ptr = greeting, .len = sizeof(greeting)};
    struct rpma_conn_private_data received = {0};
    struct ibv_context *device = NULL;
    struct rpma_peer *peer = NULL;
    struct rpma_ep *ep = NULL;
    struct rpma_conn_req *req = NULL;
    struct rpma_conn *conn = NULL;
    enum rpma_conn_event event = RPMA_CONN_UNDEFINED;

    /* Device with this address. */
    int status = explain_device(args, rpma_utils_get_ibv_context(args->addr, RPMA_UTIL_IBV_CONTEXT_LOCAL, &device));
    status = status ? status : check("rpma_peer_new", rpma_peer_new(device, &peer));

    /* A request waits at the endpoint until it is accepted, or deleted, which rejects it. */
    status = status ? status : explain_listening(args, rpma_ep_listen(peer, args->addr, args->port, &ep));
    status = status ? status : wait_for_request(args, ep);
    status = status ? status : check("rpma_ep_next_conn_req", rpma_ep_next_conn_req(ep, NULL, &req));
    status = status ? status : check("rpma_conn_req_connect", rpma_conn_req_connect(&req, &pdata, &conn));
    status = status ? status : wait_for_event(args, conn);
    status = status ? status : check("rpma_conn_next_event", rpma_conn_next_event(conn, &event));
    status = status ? status : check_event(event, RPMA_CONN_ESTABLISHED);

    /* Private data of the client's request. */
    status = status ? status : check("rpma_conn_get_private_data", rpma_conn_get_private_data(conn, &received));
    status = status ? status : print_text("Received a message", received.ptr, received.len);

    /* Both sides must disconnect: the server first, then the client after the event. */
    status = status ? status : check("rpma_conn_disconnect", rpma_conn_disconnect(conn));
    status = status ? status : expect_event(args, conn, RPMA_CONN_CLOSED); /* waits, and calls rpma_conn_next_event */

    status |= check("rpma_conn_delete", rpma_conn_delete(&conn));
    status |= check("rpma_conn_req_delete", rpma_conn_req_delete(&req));
    status |= check("rpma_ep_shutdown", rpma_ep_shutdown(&ep));
    status |= check("rpma_peer_delete", rpma_peer_delete(&peer));
    return status;
}

static const struct program program = {
        .purpose = "Accepts one client, exchanging a greeting, and disconnects.",
        .operands = "",
        .operands_help = "",
        .retry_s = RETRY_NOT_OFFERED,
};

int main(int argc, char **argv)
{
    const struct arguments args = arguments_parse(argc, argv, &program);
    return exchange_greetings(&args);
}
