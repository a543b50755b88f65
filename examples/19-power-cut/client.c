// SPDX-License-Identifier: BSD-3-Clause
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <librpma.h>

#include "arguments.h"
#include "completion.h"
#include "connection.h"
#include "handshake.h"
#include "log_layout.h"
#include "memory.h"
#include "region.h"
#include "status.h"

static const char write_name[] = "rpma_write";
static const char flush_name[] = "rpma_flush of the record";
static const char count_name[] = "rpma_atomic_write";
static const char count_flush_name[] = "rpma_flush of the count";

static const struct program program = {
        .purpose = "Appends records to a log that has to be whole whenever the server loses its power.",
        .operands = "<records> [right|no-flush|late-flush]",
        .operands_help = "  <records>        records to append, 1 to 300\n"
                         "  right            (default) makes each record durable before the count, then the count\n"
                         "  no-flush         wrong: makes nothing durable\n"
                         "  late-flush       wrong: makes the record durable only after the count\n",
        .min_operands = 1,
        .max_operands = 2,
        .timeout_s = 30,
};

enum order {
    ORDER_RIGHT,
    ORDER_NO_FLUSH,
    ORDER_LATE_FLUSH
};

struct log {
    struct rpma_conn *conn;
    struct rpma_mr_remote *mr;
    const struct rpma_mr_local *record;
    enum rpma_flush_type flush_type;
};

static enum order order_of(const struct arguments *args)
{
    static const char *const names[] = {"right", "no-flush", "late-flush"};
    const char *name = arguments_operand(args, 1);
    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); ++i) {
        if (name == NULL || strcmp(name, names[i]) == 0)
            return (enum order)i;
    }
    usage_error("'%s' is not right, no-flush or late-flush", name);
}

static int write_record(const struct log *log, uint64_t number)
{
    return check(write_name, rpma_write(log->conn, log->mr, record_offset(number), log->record, 0, RECORD_SIZE,
                                     RPMA_F_COMPLETION_ON_ERROR, write_name));
}

static int write_count(const struct log *log, uint64_t count, int flags)
{
    return check(count_name,
            rpma_atomic_write(log->conn, log->mr, LOG_COUNT_OFFSET, (const char *)&count, flags, count_name));
}

static int flush_record(const struct log *log, uint64_t number, int flags)
{
    return check(flush_name,
            rpma_flush(log->conn, log->mr, record_offset(number), RECORD_SIZE, log->flush_type, flags, flush_name));
}

static int flush_count(const struct log *log, int flags)
{
    return check(count_flush_name,
            rpma_flush(log->conn, log->mr, LOG_COUNT_OFFSET, LOG_COUNT_SIZE, log->flush_type, flags, count_flush_name));
}

/* Each operation is executed after the previous one. The completion of the last one covers all. */
static int append(const struct arguments *args, const struct log *log, uint64_t number, enum order order)
{
    const int quiet = RPMA_F_COMPLETION_ON_ERROR;
    const int last = RPMA_F_COMPLETION_ALWAYS;
    int status = write_record(log, number);
    if (status != STATUS_OK)
        return status;

    const char *last_name = count_flush_name;
    switch (order) {
    case ORDER_RIGHT:
        status = flush_record(log, number, quiet);
        if (status == STATUS_OK)
            status = write_count(log, number + 1, quiet);
        if (status == STATUS_OK)
            status = flush_count(log, last);
        break;
    case ORDER_NO_FLUSH:
        last_name = count_name;
        status = write_count(log, number + 1, last);
        break;
    case ORDER_LATE_FLUSH:
        last_name = flush_name;
        status = write_count(log, number + 1, quiet);
        if (status == STATUS_OK)
            status = flush_count(log, quiet);
        if (status == STATUS_OK)
            status = flush_record(log, number, last);
        break;
    }
    return status ? status : wait_for_completion(args, log->conn, last_name);
}

/* Assumes that the server's file is persistent memory, where flushes reach persistence. */
static int choose_flush(struct log *log)
{
    struct rpma_peer_cfg *pcfg = NULL;
    int types = 0;
    int status = check("rpma_mr_remote_get_flush_type", rpma_mr_remote_get_flush_type(log->mr, &types));
    if (status != STATUS_OK)
        return status;

    log->flush_type = RPMA_FLUSH_TYPE_VISIBILITY;
    if ((types & RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT) == 0)
        return STATUS_OK;
    log->flush_type = RPMA_FLUSH_TYPE_PERSISTENT;
    status = check("rpma_peer_cfg_new", rpma_peer_cfg_new(&pcfg));
    if (status == STATUS_OK)
        status = check("rpma_peer_cfg_set_direct_write_to_pmem", rpma_peer_cfg_set_direct_write_to_pmem(pcfg, true));
    if (status == STATUS_OK)
        status = check("rpma_conn_apply_remote_peer_cfg", rpma_conn_apply_remote_peer_cfg(log->conn, pcfg));

    status |= check("rpma_peer_cfg_delete", rpma_peer_cfg_delete(&pcfg));
    return status;
}

static int append_records(const struct arguments *args, struct rpma_conn *conn, const struct rpma_mr_local *buffer,
        uint64_t *record, uint64_t count)
{
    struct log log = {.conn = conn, .record = buffer};
    struct rpma_conn_private_data pdata = {0};
    size_t offset = 0;
    uint64_t acknowledged = 0;
    const enum order order = order_of(args);

    int status = check("rpma_conn_get_private_data", rpma_conn_get_private_data(conn, &pdata));
    if (status == STATUS_OK)
        status = handshake_parse(&pdata, LOG_SIZE, &log.mr, &offset, NULL);
    if (status == STATUS_OK)
        status = choose_flush(&log);
    while (status == STATUS_OK && acknowledged < count) {
        for (unsigned i = 0; i < RECORD_WORDS; ++i)
            record[i] = record_word(acknowledged, i);
        status = append(args, &log, acknowledged, order);
        acknowledged += status == STATUS_OK;
    }
    /* These records must be in the log, whatever happens to the server. */
    printf("acknowledged: %" PRIu64 "\n", acknowledged);

    status |= check("rpma_mr_remote_delete", rpma_mr_remote_delete(&log.mr));
    return status;
}

int main(int argc, char **argv)
{
    const struct arguments args = arguments_parse(argc, argv, &program);
    const uint64_t count = arguments_number(&args, 0, "<records>", 0);
    if (count < 1 || count > LOG_CAPACITY)
        usage_error("<records> is from 1 to %d", LOG_CAPACITY);
    (void)order_of(&args);
    struct memory memory = {0};
    struct rpma_peer *peer = NULL;
    struct rpma_mr_local *buffer = NULL;
    struct rpma_conn *conn = NULL;

    int status = open_peer(&args, RPMA_UTIL_IBV_CONTEXT_REMOTE, &peer);
    if (status == STATUS_OK)
        status = memory_allocate(&memory, RECORD_SIZE);
    if (status == STATUS_OK)
        status = register_memory(peer, &memory, RPMA_MR_USAGE_WRITE_SRC, &buffer);
    if (status == STATUS_OK)
        status = connect_to_server(&args, peer, NULL, NULL, &conn);
    if (status == STATUS_OK)
        status = append_records(&args, conn, buffer, (uint64_t *)(void *)memory.base, count);
    if (status == STATUS_OK)
        status = disconnect(&args, conn);

    status |= check("rpma_conn_delete", rpma_conn_delete(&conn));
    status |= check("rpma_mr_dereg", rpma_mr_dereg(&buffer));
    status |= check("rpma_peer_delete", rpma_peer_delete(&peer));
    memory_close(&memory);
    return status;
}
