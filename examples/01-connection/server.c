// SPDX-License-Identifier: BSD-3-Clause
#include <librpma.h>

#include "arguments.h"
#include "connection.h"
#include "status.h"
#include "text.h"

static const struct program program = {
        .purpose = "Accepts one client, exchanging a greeting, and disconnects.",
        .operands = "",
        .operands_help = "",
        .retry_s = RETRY_NOT_OFFERED,
};

int main(int argc, char **argv)
{
    const struct arguments args = arguments_parse(argc, argv, &program);
    struct rpma_peer *peer = NULL;
    struct rpma_conn *conn = NULL;
    struct rpma_conn_private_data received = {0};
    char greeting[] = "Hello client!";
    const struct rpma_conn_private_data pdata = {.ptr = greeting, .len = sizeof(greeting)};

    int status = open_peer(&args, RPMA_UTIL_IBV_CONTEXT_LOCAL, &peer);
    if (status == STATUS_OK)
        status = accept_one_client(&args, peer, NULL, &pdata, NULL, NULL, &conn);
    if (status == STATUS_OK)
        status = check("rpma_conn_get_private_data", rpma_conn_get_private_data(conn, &received));
    if (status == STATUS_OK)
        status = print_text("Received a message", received.ptr, received.len);
    if (status == STATUS_OK)
        status = disconnect(&args, conn);

    status |= check("rpma_conn_delete", rpma_conn_delete(&conn));
    status |= check("rpma_peer_delete", rpma_peer_delete(&peer));
    return status;
}
