// SPDX-License-Identifier: BSD-3-Clause
#include <err.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include <librpma.h>

#include "arguments.h"
#include "completion.h"
#include "connection.h"
#include "direct_write.h"
#include "handshake.h"
#include "memory.h"
#include "records.h"
#include "region.h"
#include "status.h"

enum {
    DEFAULT_RECORDS = 100,
    VALUE_SIZE = sizeof(uint64_t),
    HEADER_OFFSET = LOG_RECORD_SIZE, /* offset in this program's memory, after the record buffer */
    MEMORY_SIZE = HEADER_OFFSET + VALUE_SIZE,
    MAX_FRUITLESS = 5 /* maximum consecutive connections that are lost before a record is written */
};

static const char read_name[] = "rpma_read";
static const char write_name[] = "rpma_write";
static const char flush_name[] = "rpma_flush";
static const char atomic_name[] = "rpma_atomic_write";

static const struct program program = {
        .purpose =
                "Appends records to the server's log. After losing the connection, it continues at the end of the log.",
        .operands = "[<records> [<sleep-usec>]]",
        .operands_help = "  <records>        records to append, at least 1 (default 100)\n"
                         "  <sleep-usec>     pause after every record, in microseconds (default 0)\n",
        .max_operands = 2,
        .timeout_s = 30,
        .retry_s = 30,
};

/* A connection and the parameters that the server sent. They can change, because the server may have restarted. */
struct session {
    const struct arguments *args;
    struct rpma_conn *conn;
    struct rpma_mr_remote *log;
    size_t log_offset;
    enum rpma_flush_type flush_type;
};

struct writer {
    const struct arguments *args;
    struct rpma_peer *peer;
    struct memory memory;
    struct rpma_mr_local *mr;
    struct timespec pause;
    uint64_t next; /* next record to write */
    uint64_t goal; /* total number of records, 0 if not known yet */
};

static int read_count(struct session *session, struct writer *writer, uint64_t *count)
{
    int status = check(read_name,
            rpma_read(session->conn, writer->mr, HEADER_OFFSET, session->log, session->log_offset + LOG_COUNT_OFFSET,
                    VALUE_SIZE, RPMA_F_COMPLETION_ALWAYS, read_name));
    if (status == STATUS_OK)
        status = wait_for_completion(session->args, session->conn, read_name);
    if (status == STATUS_OK)
        memcpy(count, writer->memory.base + HEADER_OFFSET, sizeof(*count));
    return status;
}

static int set_value(struct session *session, size_t offset, uint64_t value)
{
    char bytes[VALUE_SIZE];
    memcpy(bytes, &value, sizeof(bytes));
    return check(atomic_name, rpma_atomic_write(session->conn, session->log, session->log_offset + offset, bytes,
                                      RPMA_F_COMPLETION_ON_ERROR, atomic_name));
}

static int flush(struct session *session, size_t offset, size_t size, int flags)
{
    return check(flush_name, rpma_flush(session->conn, session->log, session->log_offset + offset, size,
                                     session->flush_type, flags, flush_name));
}

/* The record must be persistent before the header counts it. One completion covers all four operations. */
static int append(struct session *session, struct writer *writer)
{
    const uint64_t number = writer->next;
    const size_t offset = LOG_RECORDS_OFFSET + (size_t)number * LOG_RECORD_SIZE;
    char *record = writer->memory.base;

    memset(record, 0, LOG_RECORD_SIZE);
    memcpy(record, &number, sizeof(number));
    (void)snprintf(record + LOG_TEXT_OFFSET, LOG_RECORD_SIZE - LOG_TEXT_OFFSET, "record %" PRIu64, number);

    int status = check(write_name, rpma_write(session->conn, session->log, session->log_offset + offset, writer->mr, 0,
                                           LOG_RECORD_SIZE, RPMA_F_COMPLETION_ON_ERROR, write_name));
    if (status == STATUS_OK)
        status = flush(session, offset, LOG_RECORD_SIZE, RPMA_F_COMPLETION_ON_ERROR);
    if (status == STATUS_OK)
        status = set_value(session, LOG_COUNT_OFFSET, number + 1);
    if (status == STATUS_OK)
        status = flush(session, LOG_COUNT_OFFSET, VALUE_SIZE, RPMA_F_COMPLETION_ALWAYS);
    return status ? status : wait_for_completion(session->args, session->conn, flush_name);
}

static int open_session(struct session *session, struct writer *writer)
{
    struct rpma_conn_private_data pdata = {0};
    struct rpma_peer_cfg *pcfg = NULL;

    int status = connect_to_server(session->args, writer->peer, NULL, NULL, &session->conn);
    if (status == STATUS_OK)
        status = check("rpma_conn_get_private_data", rpma_conn_get_private_data(session->conn, &pdata));
    if (status == STATUS_OK)
        status = handshake_parse(&pdata, LOG_SIZE, &session->log, &session->log_offset, &pcfg);
    if (status == STATUS_OK && pcfg)
        status = check("rpma_conn_apply_remote_peer_cfg", rpma_conn_apply_remote_peer_cfg(session->conn, pcfg));
    if (status == STATUS_OK)
        status = direct_write_flush_type(pcfg, &session->flush_type);

    status |= check("rpma_peer_cfg_delete", rpma_peer_cfg_delete(&pcfg));
    return status;
}

/* Errors are ignored, because the status of the operations is already known. */
static void close_session(struct session *session)
{
    (void)rpma_mr_remote_delete(&session->log);
    (void)rpma_conn_delete(&session->conn);
}

/* The server's count determines the next record: records without a completion may be durable. */
static int resume(struct session *session, struct writer *writer)
{
    uint64_t count = 0;
    int status = read_count(session, writer, &count);
    if (status != STATUS_OK)
        return status;

    if (writer->goal == 0) {
        const uint64_t records = arguments_number(writer->args, 0, "<records>", DEFAULT_RECORDS);
        if (count > LOG_CAPACITY || records > LOG_CAPACITY - count) {
            warnx("the log contains %" PRIu64 " records, the maximum is %d (write fewer, or start a new one)", count,
                    LOG_CAPACITY);
            return STATUS_USAGE;
        }
        writer->goal = count + records;
    }
    printf("Records in the log: %" PRIu64 "\n", count);
    writer->next = count;
    return set_value(session, LOG_GOAL_OFFSET, writer->goal);
}

static int write_records(struct session *session, struct writer *writer)
{
    int status = resume(session, writer);
    while (status == STATUS_OK && writer->next < writer->goal) {
        status = append(session, writer);
        if (status == STATUS_OK) {
            ++writer->next;
            (void)nanosleep(&writer->pause, NULL);
        }
    }
    return status ? status : disconnect(session->args, session->conn);
}

static int write_whatever_happens(struct writer *writer)
{
    for (int fruitless = 0; fruitless < MAX_FRUITLESS; ++fruitless) {
        struct session session = {.args = writer->args};
        const uint64_t before = writer->next;

        int status = open_session(&session, writer);
        const bool is_open = status == STATUS_OK;
        if (is_open)
            status = write_records(&session, writer);
        close_session(&session);
        if (status == STATUS_OK) {
            printf("Records in the log: %" PRIu64 "\n", writer->next);
            return STATUS_OK;
        }
        if (!is_open || status == STATUS_USAGE)
            return STATUS_FAILED;

        printf("Connection lost at record %" PRIu64 "\n", writer->next);
        if (writer->next > before)
            fruitless = 0;
    }
    warnx("%d connections lost without writing a record (see the output of the server)", MAX_FRUITLESS);
    return STATUS_FAILED;
}

int main(int argc, char **argv)
{
    const struct arguments args = arguments_parse(argc, argv, &program);
    const uint64_t pause_us = arguments_number(&args, 1, "<sleep-usec>", 0);
    struct writer writer = {.args = &args,
            .pause = {.tv_sec = (time_t)(pause_us / 1000000), .tv_nsec = (long)(pause_us % 1000000) * 1000}};

    if (arguments_number(&args, 0, "<records>", DEFAULT_RECORDS) == 0)
        usage_error("<records>: must be at least 1");
    int status = open_peer(&args, RPMA_UTIL_IBV_CONTEXT_REMOTE, &writer.peer);
    if (status == STATUS_OK)
        status = memory_allocate(&writer.memory, MEMORY_SIZE);
    if (status == STATUS_OK)
        status = register_memory(
                writer.peer, &writer.memory, RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_READ_DST, &writer.mr);
    if (status == STATUS_OK)
        status = write_whatever_happens(&writer);

    status |= check("rpma_mr_dereg", rpma_mr_dereg(&writer.mr));
    status |= check("rpma_peer_delete", rpma_peer_delete(&writer.peer));
    memory_close(&writer.memory);
    return status;
}
