// SPDX-License-Identifier: BSD-3-Clause
#include <err.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <librpma.h>

#include "arguments.h"
#include "connection.h"
#include "handshake.h"
#include "log_layout.h"
#include "memory.h"
#include "region.h"
#include "status.h"

static const char signature[8] = "LOG";

static const struct program program = {
        .purpose = "Lets one client append words to a log in this server's persistent memory.",
        .operands = "[<pmem-path>]",
        .operands_help = "  <pmem-path>      file or PMem device that holds the log; without it the log is in DRAM\n",
        .max_operands = 1,
        .retry_s = RETRY_NOT_OFFERED,
};

static uint64_t used_of(const struct memory *memory)
{
    uint64_t used;
    memcpy(&used, memory->base + LOG_USED_OFFSET, sizeof(used));
    return used;
}

static int check_used(const struct memory *memory)
{
    const uint64_t used = used_of(memory);
    if (used >= LOG_DATA_OFFSET && used <= LOG_SIZE)
        return STATUS_OK;

    warnx("invalid log: its end, %" PRIu64 ", is out of bounds (overwrite its signature to start a new one)", used);
    return STATUS_FAILED;
}

static int open_log(const struct arguments *args, struct memory *memory)
{
    const int status = memory_open_unsigned(memory, arguments_operand(args, 0), 0, LOG_SIZE);
    if (status != STATUS_OK)
        return status;
    if (memory->map && memcmp(memory->base, signature, sizeof(signature)) == 0)
        return check_used(memory);

    const uint64_t empty = LOG_DATA_OFFSET;
    memcpy(memory->base + LOG_USED_OFFSET, &empty, sizeof(empty));
    memory_persist_range(memory, LOG_USED_OFFSET, LOG_USED_SIZE);
    if (memory->map) { /* written last: a file with the signature contains a log */
        memcpy(memory->base, signature, sizeof(signature));
        memory_persist_range(memory, 0, sizeof(signature));
    }
    return STATUS_OK;
}

/* Prints one word per line. A zero byte ends each word. */
static int print_log(const struct memory *memory)
{
    const int status = check_used(memory);
    if (status != STATUS_OK)
        return status;

    const char *end = memory->base + used_of(memory);
    for (const char *byte = memory->base + LOG_DATA_OFFSET; byte < end; ++byte)
        (void)putchar(*byte == '\0' ? '\n' : *byte);
    return STATUS_OK;
}

static int usage_of(const struct memory *memory)
{
    return RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_READ_SRC |
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
        status = handshake_make(&handshake, mr, LOG_USED_OFFSET, NULL);
    if (status == STATUS_OK)
        status = accept_one_client(&args, peer, NULL, &pdata, NULL, NULL, &conn);
    if (status == STATUS_OK)
        status = wait_for_disconnect(&args, conn);
    if (status == STATUS_OK)
        status = print_log(&memory);

    status |= check("rpma_conn_delete", rpma_conn_delete(&conn));
    status |= check("rpma_mr_dereg", rpma_mr_dereg(&mr));
    status |= check("rpma_peer_delete", rpma_peer_delete(&peer));
    memory_close(&memory);
    return status;
}
