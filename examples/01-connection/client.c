// SPDX-License-Identifier: BSD-3-Clause
/*
 * Connects to the server, exchanges greetings, and waits until the server disconnects.
 *
 *     cc client.c -o client $(pkg-config --cflags --libs librpma)
 */
#include "../common/common.h"

#include <librpma.h>

/* Connects and exchanges greetings. Each step runs only if the steps before it succeeded. Returns an exit status. */
static int exchange_greetings(const struct arguments *args)
{
    char greeting[] = "Hello server!";
    const struct rpma_conn_private_data pdata = {.ptr = greeting, .len = sizeof(greeting)};
    struct rpma_conn_private_data answer = {0};
    struct ibv_context *device = NULL;
    struct rpma_peer *peer = NULL;
    struct rpma_conn_req *req = NULL;
    struct rpma_conn *conn = NULL;
    enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
    int64_t deadline_ms = 0;

    /* Device through which the server's address is reached. */
    int status = explain_device(args, rpma_utils_get_ibv_context(args->addr, RPMA_UTIL_IBV_CONTEXT_REMOTE, &device));
    status = status ? status : check("rpma_peer_new", rpma_peer_new(device, &peer));

    do { /* the request carries the greeting; it is repeated for --retry seconds: the server might start later */
        status = status ? status : explain_request(args, rpma_conn_req_new(peer, args->addr, args->port, NULL, &req));
        status = status ? status : check("rpma_conn_req_connect", rpma_conn_req_connect(&req, &pdata, &conn));
        status = status ? status : wait_for_event(args, conn);
        status = status ? status : check("rpma_conn_next_event", rpma_conn_next_event(conn, &event));
    } while (try_again(args, event, &deadline_ms, &conn, &status));

    /* Private data of the server's reply. */
    status = status ? status : check("rpma_conn_get_private_data", rpma_conn_get_private_data(conn, &answer));
    status = status ? status : print_text("Received a message", answer.ptr, answer.len);

    /* Both sides must disconnect: the server first, then the client after the event. */
    status = status ? status : expect_event(args, conn, RPMA_CONN_CLOSED); /* waits, and calls rpma_conn_next_event */
    status = status ? status : check("rpma_conn_disconnect", rpma_conn_disconnect(conn));

    status |= check("rpma_conn_delete", rpma_conn_delete(&conn));
    status |= check("rpma_peer_delete", rpma_peer_delete(&peer));
    return status;
}

static const struct program program = {
        .purpose = "Connects to the server, exchanging a greeting, and waits until the server disconnects.",
        .operands = "",
        .operands_help = "",
        .timeout_s = 30,
        .retry_s = 45,
};

int main(int argc, char **argv)
{
    const struct arguments args = arguments_parse(argc, argv, &program);
    return exchange_greetings(&args);
}
