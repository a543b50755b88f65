// SPDX-License-Identifier: BSD-3-Clause
/*
 * Lets one client read a greeting from this server's memory. See example 01 for connecting.
 *
 *     cc server.c -o server $(pkg-config --cflags --libs librpma)
 */
#include "../common/common.h"

#include <librpma.h>

/* The region contains only the greeting, so its size is the length that the client reads. */
static char greeting[] = "Hello client!";

static const struct program program = {
        .purpose = "Lets one client read a greeting from this server's memory, without taking part in it.",
        .operands = "",
        .operands_help = "",
        .retry_s = RETRY_NOT_OFFERED,
};

int main(int argc, char **argv)
{
    const struct arguments args = arguments_parse(argc, argv, &program);
    struct rpma_peer *peer = NULL;
    struct rpma_mr_local *mr = NULL;
    struct rpma_conn *conn = NULL;
    struct handshake handshake;
    const struct rpma_conn_private_data pdata = handshake_private_data(&handshake);

    int status = open_peer(&args, RPMA_UTIL_IBV_CONTEXT_LOCAL, &peer);
    if (status == STATUS_OK)
        status = explain_mr_reg(
                sizeof(greeting), rpma_mr_reg(peer, greeting, sizeof(greeting), RPMA_MR_USAGE_READ_SRC, &mr));
    if (status == STATUS_OK) /* sends the descriptor of the region as private data */
        status = handshake_make(&handshake, mr, 0, NULL);
    if (status == STATUS_OK)
        status = accept_one_client(&args, peer, NULL, &pdata, NULL, NULL, &conn);
    if (status == STATUS_OK)
        status = wait_for_disconnect(&args, conn);

    status |= check("rpma_conn_delete", rpma_conn_delete(&conn));
    status |= check("rpma_mr_dereg", rpma_mr_dereg(&mr));
    status |= check("rpma_peer_delete", rpma_peer_delete(&peer));
    return status;
}
