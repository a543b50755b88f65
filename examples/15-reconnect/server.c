// SPDX-License-Identifier: BSD-3-Clause
#include <err.h>
#include <inttypes.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include <librpma.h>

#include "arguments.h"
#include "connection.h"
#include "direct_write.h"
#include "handshake.h"
#include "memory.h"
#include "records.h"
#include "region.h"
#include "status.h"

enum {
    LOOK_INTERVAL_MS = 1
};

static const char signature[8] = "RECORDS";

static const struct program program = {
        .purpose = "Keeps a log that one client appends to, however often it has to connect for that.",
        .operands = "[<drop-after> [<pmem-path> [on|off]]]",
        .operands_help = "  <drop-after>     records after which to drop the connection once, 0 (default): never\n"
                         "  <pmem-path>      file or PMem device that holds the log; without it the log is in "
                         "DRAM\n" DIRECT_WRITE_HELP,
        .max_operands = 3,
        .retry_s = RETRY_NOT_OFFERED,
};

struct log {
    struct memory memory;
    uint64_t drop_at;
};

/* The client's device may write the value at any time. */
static uint64_t value_at(const struct log *log, size_t offset)
{
    return atomic_load((const _Atomic uint64_t *)(const void *)(log->memory.base + offset));
}

static int open_log(const struct arguments *args, struct log *log)
{
    const int status = memory_open_unsigned(&log->memory, arguments_operand(args, 1), 0, LOG_SIZE);
    if (status != STATUS_OK)
        return status;

    struct memory *memory = &log->memory;
    if (memcmp(memory->base + LOG_SIGNATURE_OFFSET, signature, sizeof(signature)) != 0) {
        memset(memory->base, 0, LOG_SIZE);
        memory_persist_range(memory, 0, LOG_SIZE);
        memcpy(memory->base + LOG_SIGNATURE_OFFSET, signature,
                sizeof(signature)); /* last: the signature marks a complete header */
        memory_persist_range(memory, LOG_SIGNATURE_OFFSET, sizeof(signature));
    }

    const uint64_t count = value_at(log, LOG_COUNT_OFFSET);
    const uint64_t drop_after = arguments_number(args, 0, "<drop-after>", 0);
    log->drop_at = drop_after == 0 ? UINT64_MAX : count + drop_after;
    return STATUS_OK;
}

/* The records that the header counts must exist, even after lost connections. */
static int check_log(const struct log *log)
{
    const uint64_t count = value_at(log, LOG_COUNT_OFFSET);
    if (count > LOG_CAPACITY) {
        warnx("invalid log: %" PRIu64 " records, the maximum is %d", count, LOG_CAPACITY);
        return STATUS_FAILED;
    }
    for (uint64_t number = 0; number < count; ++number) {
        const uint64_t found = value_at(log, LOG_RECORDS_OFFSET + (size_t)number * LOG_RECORD_SIZE);
        if (found != number) {
            warnx("invalid log: record %" PRIu64 " contains number %" PRIu64, number, found);
            return STATUS_FAILED;
        }
    }
    printf("Records in the log: %" PRIu64 ", each in its place\n", count);
    return STATUS_OK;
}

/* Waits for the end of the connection. Polls the log, because writes of the client generate no events here. */
static int watch_connection(struct log *log, struct rpma_conn *conn)
{
    enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
    struct pollfd fd = {.events = POLLIN};
    int status = check("rpma_conn_get_event_fd", rpma_conn_get_event_fd(conn, &fd.fd));

    while (status == STATUS_OK && poll(&fd, 1, log->drop_at == UINT64_MAX ? -1 : LOOK_INTERVAL_MS) <= 0) {
        const uint64_t count = value_at(log, LOG_COUNT_OFFSET);
        if (count < log->drop_at)
            continue;
        printf("Dropping the connection after record %" PRIu64 "\n", count);
        log->drop_at = UINT64_MAX;
        status = check("rpma_conn_disconnect", rpma_conn_disconnect(conn));
    }
    if (status == STATUS_OK)
        status = check("rpma_conn_next_event", rpma_conn_next_event(conn, &event));
    if (status == STATUS_OK)
        warnx("connection event %s at record %" PRIu64, rpma_utils_conn_event_2str(event),
                value_at(log, LOG_COUNT_OFFSET));
    return status;
}

/* Serves one connection after the other. The registration is kept, so the keys of clients stay valid. */
static int serve(
        struct arguments *args, struct log *log, struct rpma_peer *peer, const struct rpma_conn_private_data *pdata)
{
    int status = STATUS_OK;
    do {
        struct rpma_conn *conn = NULL;
        status = accept_one_client(args, peer, NULL, pdata, NULL, NULL, &conn);
        args->ready_fd = -1; /* reported only once */
        if (status == STATUS_OK)
            status = watch_connection(log, conn);
        status |= check("rpma_conn_delete", rpma_conn_delete(&conn));
    } while (status == STATUS_OK && value_at(log, LOG_COUNT_OFFSET) != value_at(log, LOG_GOAL_OFFSET));
    return status;
}

int main(int argc, char **argv)
{
    struct arguments args = arguments_parse(argc, argv, &program);
    const bool direct_write = direct_write_parse(&args, 2);
    struct log log = {0};
    struct rpma_peer *peer = NULL;
    struct rpma_mr_local *mr = NULL;
    struct handshake handshake;
    const struct rpma_conn_private_data pdata = handshake_private_data(&handshake);

    int status = open_peer(&args, RPMA_UTIL_IBV_CONTEXT_LOCAL, &peer);
    if (status == STATUS_OK)
        status = open_log(&args, &log);
    if (status == STATUS_OK)
        status = register_memory(
                peer, &log.memory, direct_write_usage(&log.memory, direct_write) | RPMA_MR_USAGE_READ_SRC, &mr);
    if (status == STATUS_OK)
        status = direct_write_describe(direct_write, mr, 0, &handshake);
    if (status == STATUS_OK)
        status = serve(&args, &log, peer, &pdata);
    if (status == STATUS_OK && !direct_write)
        memory_persist_range(&log.memory, 0, LOG_SIZE);
    if (status == STATUS_OK)
        status = check_log(&log);

    status |= check("rpma_mr_dereg", rpma_mr_dereg(&mr));
    status |= check("rpma_peer_delete", rpma_peer_delete(&peer));
    memory_close(&log.memory);
    return status;
}
