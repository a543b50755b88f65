// SPDX-License-Identifier: BSD-3-Clause
#include <librpma.h>

#include "arguments.h"
#include "connection.h"
#include "status.h"
#include "text.h"

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
    struct rpma_peer *peer = NULL;
    struct rpma_conn *conn = NULL;
    struct rpma_conn_private_data answer = {0};
    char greeting[] = "Hello server!";
    const struct rpma_conn_private_data pdata = {.ptr = greeting, .len = sizeof(greeting)};

    int status = open_peer(&args, RPMA_UTIL_IBV_CONTEXT_REMOTE, &peer);
    if (status == STATUS_OK)
        status = connect_to_server(&args, peer, NULL, &pdata, &conn);
    if (status == STATUS_OK)
        status = check("rpma_conn_get_private_data", rpma_conn_get_private_data(conn, &answer));
    if (status == STATUS_OK)
        status = print_text("Received a message", answer.ptr, answer.len);
    if (status == STATUS_OK)
        status = wait_for_disconnect(&args, conn);

    status |= check("rpma_conn_delete", rpma_conn_delete(&conn));
    status |= check("rpma_peer_delete", rpma_peer_delete(&peer));
    return status;
}
