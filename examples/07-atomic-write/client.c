// SPDX-License-Identifier: BSD-3-Clause
#include <err.h>
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

enum {
    BUFFER_SIZE = LOG_SIZE - LOG_DATA_OFFSET,
    MAX_WORDS = 1000
};

static const char read_name[] = "rpma_read";
static const char write_name[] = "rpma_write";
static const char atomic_name[] = "rpma_atomic_write";
static const char data_flush_name[] = "rpma_flush of a word";
static const char used_flush_name[] = "rpma_flush";

static const struct program program = {
        .purpose = "Appends words to a log in the server's persistent memory.",
        .operands = "<word> [<word> ...]",
        .operands_help = "  <word>           text to append; 1024 bytes in all, with a zero byte behind each\n",
        .min_operands = 1,
        .max_operands = MAX_WORDS,
        .timeout_s = 30,
};

/* Location and length of the server's log. */
struct remote_log {
    struct rpma_mr_remote *mr;
    size_t used_at; /* offset of the length in the region */
    uint64_t used;
    enum rpma_flush_type flush_type;
};

/* Flushing to persistence needs a peer configuration with direct write. This server supports it if its region does. */
static int assume_direct_write(struct rpma_conn *conn)
{
    struct rpma_peer_cfg *pcfg = NULL;
    int status = check("rpma_peer_cfg_new", rpma_peer_cfg_new(&pcfg));
    if (status == STATUS_OK)
        status = check("rpma_peer_cfg_set_direct_write_to_pmem", rpma_peer_cfg_set_direct_write_to_pmem(pcfg, true));
    if (status == STATUS_OK)
        status = check("rpma_conn_apply_remote_peer_cfg", rpma_conn_apply_remote_peer_cfg(conn, pcfg));

    status |= check("rpma_peer_cfg_delete", rpma_peer_cfg_delete(&pcfg));
    return status;
}

static int choose_flush(struct rpma_conn *conn, struct remote_log *log)
{
    int flush_types = 0;
    const int status = check("rpma_mr_remote_get_flush_type", rpma_mr_remote_get_flush_type(log->mr, &flush_types));
    if (status != STATUS_OK)
        return status;

    if (flush_types & RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT) {
        log->flush_type = RPMA_FLUSH_TYPE_PERSISTENT;
        return assume_direct_write(conn);
    }
    log->flush_type = RPMA_FLUSH_TYPE_VISIBILITY;
    return STATUS_OK;
}

static int read_used(const struct arguments *args, struct rpma_conn *conn, struct rpma_mr_local *buffer,
        const char *bytes, struct remote_log *log)
{
    int status = check(read_name,
            rpma_read(conn, buffer, 0, log->mr, log->used_at, LOG_USED_SIZE, RPMA_F_COMPLETION_ALWAYS, read_name));
    if (status == STATUS_OK)
        status = wait_for_completion(args, conn, read_name);
    if (status != STATUS_OK)
        return status;

    memcpy(&log->used, bytes, sizeof(log->used));
    printf("used value: %" PRIu64 "\n", log->used);
    if (log->used >= LOG_DATA_OFFSET && log->used <= LOG_SIZE)
        return STATUS_OK;
    warnx("invalid log of the server: its end, %" PRIu64 ", is out of bounds (start the server with a new log)",
            log->used);
    return STATUS_FAILED;
}

static int open_log(const struct arguments *args, struct rpma_conn *conn, struct rpma_mr_local *buffer,
        const char *bytes, struct remote_log *log)
{
    struct rpma_conn_private_data pdata = {0};
    int status = check("rpma_conn_get_private_data", rpma_conn_get_private_data(conn, &pdata));
    if (status == STATUS_OK)
        status = handshake_parse(&pdata, LOG_SIZE - LOG_USED_OFFSET, &log->mr, &log->used_at, NULL);
    if (status == STATUS_OK && log->used_at != LOG_USED_OFFSET) {
        warnx("data of the server at offset %zu instead of %d (does it run another example?)", log->used_at,
                LOG_USED_OFFSET);
        return STATUS_FAILED;
    }
    if (status == STATUS_OK)
        status = choose_flush(conn, log);
    return status ? status : read_used(args, conn, buffer, bytes, log);
}

/* Each step is durable before the next one starts, so the stored length never counts data that is not durable. */
static int append(const struct arguments *args, struct rpma_conn *conn, const struct rpma_mr_local *buffer, size_t size,
        struct remote_log *log)
{
    /* A flush may read 8 bytes at the start of its range, which must be inside the log. */
    const uint64_t flush_from = log->used - log->used % LOG_USED_SIZE;
    const uint64_t used = log->used + size;

    int status = check(
            write_name, rpma_write(conn, log->mr, log->used, buffer, 0, size, RPMA_F_COMPLETION_ON_ERROR, write_name));
    if (status == STATUS_OK)
        status = check(data_flush_name, rpma_flush(conn, log->mr, flush_from, used - flush_from, log->flush_type,
                                                RPMA_F_COMPLETION_ON_ERROR, data_flush_name));
    if (status == STATUS_OK)
        status = check(atomic_name, rpma_atomic_write(conn, log->mr, log->used_at, (const char *)&used,
                                            RPMA_F_COMPLETION_ON_ERROR, atomic_name));
    if (status == STATUS_OK)
        status = check(used_flush_name, rpma_flush(conn, log->mr, log->used_at, LOG_USED_SIZE, log->flush_type,
                                                RPMA_F_COMPLETION_ALWAYS, used_flush_name));
    if (status == STATUS_OK) /* its completion frees the queue entries of all four operations */
        status = wait_for_completion(args, conn, used_flush_name);
    if (status == STATUS_OK)
        log->used = used;
    return status;
}

static int append_words(const struct arguments *args, struct rpma_conn *conn, struct rpma_mr_local *buffer, char *bytes)
{
    struct remote_log log = {0};
    int status = open_log(args, conn, buffer, bytes, &log);

    for (int i = 0; i < args->operand_count && status == STATUS_OK; ++i) {
        const char *word = args->operands[i];
        const size_t size = strlen(word) + 1;
        if (size > LOG_SIZE - log.used) {
            warnx("log full: '%.20s' exceeds the remaining %" PRIu64 " bytes (start the server with a new log)", word,
                    LOG_SIZE - log.used);
            status = STATUS_FAILED;
            break;
        }
        memcpy(bytes, word, size);
        status = append(args, conn, buffer, size, &log);
    }

    status |= check("rpma_mr_remote_delete", rpma_mr_remote_delete(&log.mr));
    return status;
}

int main(int argc, char **argv)
{
    const struct arguments args = arguments_parse(argc, argv, &program);
    struct memory memory = {0};
    struct rpma_peer *peer = NULL;
    struct rpma_mr_local *buffer = NULL;
    struct rpma_conn *conn = NULL;

    int status = open_peer(&args, RPMA_UTIL_IBV_CONTEXT_REMOTE, &peer);
    if (status == STATUS_OK)
        status = memory_allocate(&memory, BUFFER_SIZE);
    if (status == STATUS_OK)
        status = register_memory(peer, &memory, RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_READ_DST, &buffer);
    if (status == STATUS_OK)
        status = connect_to_server(&args, peer, NULL, NULL, &conn);
    if (status == STATUS_OK)
        status = append_words(&args, conn, buffer, memory.base);
    if (status == STATUS_OK)
        status = disconnect(&args, conn);

    status |= check("rpma_conn_delete", rpma_conn_delete(&conn));
    status |= check("rpma_mr_dereg", rpma_mr_dereg(&buffer));
    status |= check("rpma_peer_delete", rpma_peer_delete(&peer));
    memory_close(&memory);
    return status;
}
