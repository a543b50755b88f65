// SPDX-License-Identifier: BSD-3-Clause
/*
 * Connects to the server, exchanges greetings, and waits until the server disconnects.
 *
 *     cc client.c -o client $(pkg-config --cflags --libs librpma)
 */
#include "../common/common.h"

#include <librpma.h>

static const struct program program = {
        .purpose = "Connects to the server, exchanging a greeting, and waits until the server disconnects.",
        .operands = "",
        .operands_help = "",
        .timeout_s = 30,
        .retry_s = 45,
};

/* Tries to connect once. The connection is established only if *event is RPMA_CONN_ESTABLISHED. */
static int connect_once(
        const struct arguments *args, struct rpma_peer *peer, struct rpma_conn **conn, enum rpma_conn_event *event)
{
    struct rpma_conn_req *req = NULL;
    char greeting[] = "Hello server!";
    const struct rpma_conn_private_data pdata = {.ptr = greeting, .len = sizeof(greeting)};

    int status = explain_request(args, rpma_conn_req_new(peer, args->addr, args->port, NULL, &req));
    if (status == STATUS_OK) /* the request carries the greeting */
        status = check("rpma_conn_req_connect", rpma_conn_req_connect(&req, &pdata, conn));
    if (status == STATUS_OK) /* rpma_conn_next_event, with a time limit */
        status = next_event(args, *conn, event);
    if (*event != RPMA_CONN_ESTABLISHED)
        (void)rpma_conn_delete(conn);
    return status;
}

int main(int argc, char **argv)
{
    const struct arguments args = arguments_parse(argc, argv, &program);
    struct ibv_context *device = NULL;
    struct rpma_peer *peer = NULL;
    struct rpma_conn *conn = NULL;
    struct rpma_conn_private_data answer = {0};
    enum rpma_conn_event event = RPMA_CONN_REJECTED;
    int64_t deadline_ms = 0;

    /* Device through which the server's address is reached. */
    int status = explain_device(&args, rpma_utils_get_ibv_context(args.addr, RPMA_UTIL_IBV_CONTEXT_REMOTE, &device));
    if (status == STATUS_OK)
        status = check("rpma_peer_new", rpma_peer_new(device, &peer));

    /* Repeats a rejected request, because the server might not have started yet. */
    while (status == STATUS_OK && event != RPMA_CONN_ESTABLISHED) {
        status = connect_once(&args, peer, &conn, &event);
        if (status == STATUS_OK && event != RPMA_CONN_ESTABLISHED && !may_try_again(&args, event, &deadline_ms))
            status = explain_refusal(&args, event);
    }

    /* Private data of the server's reply. */
    if (status == STATUS_OK)
        status = check("rpma_conn_get_private_data", rpma_conn_get_private_data(conn, &answer));
    if (status == STATUS_OK)
        status = print_text("Received a message", answer.ptr, answer.len);

    /* Both sides must disconnect: the server first, then the client after the event. */
    if (status == STATUS_OK)
        status = expect_event(&args, conn, RPMA_CONN_CLOSED);
    if (status == STATUS_OK)
        status = check("rpma_conn_disconnect", rpma_conn_disconnect(conn));

    status |= check("rpma_conn_delete", rpma_conn_delete(&conn));
    status |= check("rpma_peer_delete", rpma_peer_delete(&peer));
    return status;
}
