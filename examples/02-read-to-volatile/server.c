// SPDX-License-Identifier: BSD-3-Clause
#include <string.h>

#include <librpma.h>

#include "arguments.h"
#include "connection.h"
#include "handshake.h"
#include "memory.h"
#include "region.h"
#include "status.h"

static const char greeting[] = "Hello client!";

static const struct program program = {
        .purpose = "Lets one client read a greeting from this server's memory, without taking part in it.",
        .operands = "",
        .operands_help = "",
        .retry_s = RETRY_NOT_OFFERED,
};

/* The region ends with the greeting: its size is how the client knows how much to read. */
static int offer_greeting(
        struct rpma_peer *peer, struct memory *memory, struct rpma_mr_local **mr, struct handshake *handshake)
{
    int status = memory_allocate(memory, sizeof(greeting));
    if (status != STATUS_OK)
        return status;
    memcpy(memory->base, greeting, sizeof(greeting));

    status = register_memory(peer, memory, RPMA_MR_USAGE_READ_SRC, mr);
    return status ? status : handshake_make(handshake, *mr, 0, NULL);
}

int main(int argc, char **argv)
{
    const struct arguments args = arguments_parse(argc, argv, &program);
    struct memory memory = {0};
    struct rpma_peer *peer = NULL;
    struct rpma_mr_local *mr = NULL;
    struct rpma_conn *conn = NULL;
    struct handshake handshake;
    const struct rpma_conn_private_data pdata = handshake_private_data(&handshake);

    int status = open_peer(&args, RPMA_UTIL_IBV_CONTEXT_LOCAL, &peer);
    if (status == STATUS_OK)
        status = offer_greeting(peer, &memory, &mr, &handshake);
    if (status == STATUS_OK)
        status = accept_one_client(&args, peer, NULL, &pdata, NULL, NULL, &conn);
    if (status == STATUS_OK)
        status = wait_for_disconnect(&args, conn);

    status |= check("rpma_conn_delete", rpma_conn_delete(&conn));
    status |= check("rpma_mr_dereg", rpma_mr_dereg(&mr));
    status |= check("rpma_peer_delete", rpma_peer_delete(&peer));
    memory_close(&memory);
    return status;
}
