// SPDX-License-Identifier: BSD-3-Clause
#include <string.h>

#include <librpma.h>

#include "arguments.h"
#include "connection.h"
#include "handshake.h"
#include "log_layout.h"
#include "memory.h"
#include "region.h"
#include "status.h"

static const struct program program = {
        .purpose = "Lets one client append records to a new log in this server's persistent memory.",
        .operands = "[<pmem-path>]",
        .operands_help = "  <pmem-path>      file or PMem device that holds the log; without it the log is in DRAM\n",
        .max_operands = 1,
        .retry_s = RETRY_NOT_OFFERED,
};

static int open_log(const struct arguments *args, struct memory *memory)
{
    const int status = memory_open_unsigned(memory, arguments_operand(args, 0), 0, LOG_SIZE);
    if (status != STATUS_OK)
        return status;
    memset(memory->base, 0, LOG_SIZE);
    memory_persist_range(memory, 0, LOG_SIZE);
    return STATUS_OK;
}

static int usage_of(const struct memory *memory)
{
    return RPMA_MR_USAGE_WRITE_DST |
           (memory->map ? RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT : RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY);
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
        status = open_log(&args, &memory);
    if (status == STATUS_OK)
        status = register_memory(peer, &memory, usage_of(&memory), &mr);
    if (status == STATUS_OK)
        status = handshake_make(&handshake, mr, 0, NULL);
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
