// SPDX-License-Identifier: BSD-3-Clause
#include <err.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <librpma.h>

#include "arguments.h"
#include "blocks.h"
#include "connection.h"
#include "handshake.h"
#include "memory.h"
#include "region.h"
#include "status.h"

static const struct program program = {
        .purpose = "Lets one client fill this server's memory with numbered blocks, and counts them.",
        .operands = "",
        .operands_help = "",
        .retry_s = RETRY_NOT_OFFERED,
};

static uint64_t number_of(const struct memory *memory, uint64_t index)
{
    uint64_t number;
    memcpy(&number, memory->base + index * BLOCK_SIZE, sizeof(number));
    return number;
}

/* Checks that the memory contains blocks 1, 2, 3 and so on without a gap, and no other block. */
static int count_blocks(const struct memory *memory)
{
    uint64_t count = 0;
    while (count < BLOCK_COUNT && number_of(memory, count) == count + 1)
        ++count;
    for (uint64_t index = count; index < BLOCK_COUNT; ++index) {
        if (number_of(memory, index) != 0) {
            warnx("block %" PRIu64 " contains number %" PRIu64, index + 1, number_of(memory, index));
            return STATUS_FAILED;
        }
    }
    printf("Blocks received: %" PRIu64 "\n", count);
    return STATUS_OK;
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
        status = memory_allocate(&memory, BLOCKS_SIZE);
    if (status == STATUS_OK)
        status = register_memory(peer, &memory, RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY, &mr);
    if (status == STATUS_OK)
        status = handshake_make(&handshake, mr, 0, NULL);
    if (status == STATUS_OK) /* one-sided operations use queue entries of the client only */
        status = accept_one_client(&args, peer, NULL, &pdata, NULL, NULL, &conn);
    if (status == STATUS_OK)
        status = wait_for_disconnect(&args, conn);
    if (status == STATUS_OK)
        status = count_blocks(&memory);

    status |= check("rpma_conn_delete", rpma_conn_delete(&conn));
    status |= check("rpma_mr_dereg", rpma_mr_dereg(&mr));
    status |= check("rpma_peer_delete", rpma_peer_delete(&peer));
    memory_close(&memory);
    return status;
}
