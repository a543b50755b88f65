// SPDX-License-Identifier: BSD-3-Clause
#include "gpspm.h"

#include <err.h>
#include <inttypes.h>
#include <stdio.h>

#include "GPSPM_flush.pb-c.h"
#include "connection.h"
#include "handshake.h"
#include "hello.h"
#include "region.h"
#include "status.h"

static const uint64_t request_context = 0xF01D;
static const char write_name[] = "rpma_write";

size_t gpspm_request(const struct mailbox *mailbox, uint64_t offset, uint64_t length)
{
    GPSPMFlushRequest request = GPSPM_FLUSH_REQUEST__INIT;
    request.offset = offset;
    request.length = length;
    request.op_context = request_context;
    return gpspm_flush_request__pack(&request, (uint8_t *)mailbox_outgoing(mailbox));
}

int gpspm_check_response(const struct mailbox *mailbox)
{
    GPSPMFlushResponse *response =
            gpspm_flush_response__unpack(NULL, mailbox->received_size, (const uint8_t *)mailbox_incoming(mailbox));
    if (!response) {
        warnx("the server sent a malformed flush response of %zu bytes (does it run another example?)",
                mailbox->received_size);
        return STATUS_FAILED;
    }

    const uint64_t context = response->op_context;
    gpspm_flush_response__free_unpacked(response, NULL);
    if (context == request_context)
        return STATUS_OK;
    warnx("unexpected response of the server: op_context 0x%" PRIX64 " instead of 0x%" PRIX64, context,
            request_context);
    return STATUS_FAILED;
}

static int persist(const struct memory *memory, const GPSPMFlushRequest *request)
{
    printf("Flush request received: {offset: 0x%" PRIX64 ", length: 0x%" PRIX64 ", op_context: 0x%" PRIX64 "}\n",
            request->offset, request->length, request->op_context);
    if (request->offset > memory->size || request->length > memory->size - request->offset) {
        warnx("flush request out of bounds: 0x%" PRIX64 " bytes at offset 0x%" PRIX64 ", memory size 0x%zX",
                request->length, request->offset, memory->size);
        return STATUS_FAILED;
    }
    memory_persist_range(memory, request->offset, request->length);
    return STATUS_OK;
}

int gpspm_persist(const struct memory *memory, const struct mailbox *mailbox, size_t *response_size)
{
    GPSPMFlushResponse response = GPSPM_FLUSH_RESPONSE__INIT;
    GPSPMFlushRequest *request =
            gpspm_flush_request__unpack(NULL, mailbox->received_size, (const uint8_t *)mailbox_incoming(mailbox));
    if (!request) {
        warnx("the client sent a malformed flush request of %zu bytes (does it run another example?)",
                mailbox->received_size);
        return STATUS_FAILED;
    }

    const int status = persist(memory, request);
    response.op_context = request->op_context;
    gpspm_flush_request__free_unpacked(request, NULL);
    if (status == STATUS_OK)
        *response_size = gpspm_flush_response__pack(&response, (uint8_t *)mailbox_outgoing(mailbox));
    return status;
}

/* The send does not overtake earlier writes, so the range has arrived when the server gets the request. */
static int write_and_ask(const struct arguments *args, struct rpma_conn *conn, const struct rpma_mr_local *src,
        size_t src_offset, struct mailbox *mailbox)
{
    struct rpma_conn_private_data pdata = {0};
    struct rpma_mr_remote *dst = NULL;
    size_t dst_offset = 0;

    int status = check("rpma_conn_get_private_data", rpma_conn_get_private_data(conn, &pdata));
    if (status == STATUS_OK)
        status = handshake_parse(&pdata, HELLO_TEXT_SIZE, &dst, &dst_offset, NULL);
    if (status == STATUS_OK)
        status = check(write_name, rpma_write(conn, dst, dst_offset, src, src_offset, HELLO_TEXT_SIZE,
                                           RPMA_F_COMPLETION_ON_ERROR, write_name));
    if (status == STATUS_OK)
        status = mailbox_expect(mailbox, conn);
    if (status == STATUS_OK)
        status = mailbox_send(mailbox, conn, gpspm_request(mailbox, dst_offset, HELLO_TEXT_SIZE));
    if (status == STATUS_OK)
        status = mailbox_wait(args, mailbox, conn, MESSAGE_SENT | MESSAGE_RECEIVED);
    if (status == STATUS_OK)
        status = gpspm_check_response(mailbox);

    status |= check("rpma_mr_remote_delete", rpma_mr_remote_delete(&dst));
    return status;
}

static int write_text(
        const struct arguments *args, struct rpma_peer *peer, const struct rpma_conn_cfg *cfg, const void *context)
{
    (void)context;
    struct memory memory = {0};
    struct mailbox mailbox = {0};
    struct rpma_mr_local *src = NULL;
    struct rpma_conn *conn = NULL;

    int status = hello_open_record(args, &memory);
    if (status == STATUS_OK)
        status = register_memory(peer, &memory, RPMA_MR_USAGE_WRITE_SRC, &src);
    if (status == STATUS_OK)
        status = mailbox_open(&mailbox, peer, GPSPM_SLOT_SIZE, NULL);
    if (status == STATUS_OK)
        status = connect_to_server(args, peer, cfg, NULL, &conn);
    if (status == STATUS_OK)
        status = write_and_ask(args, conn, src, memory.data_offset + HELLO_TEXT_OFFSET, &mailbox);
    if (status == STATUS_OK)
        status = hello_translate(&memory);
    if (status == STATUS_OK)
        status = disconnect(args, conn);

    status |= check("rpma_conn_delete", rpma_conn_delete(&conn));
    status |= mailbox_close(&mailbox);
    status |= check("rpma_mr_dereg", rpma_mr_dereg(&src));
    memory_close(&memory);
    return status;
}

static int answer(
        const struct arguments *args, struct rpma_conn *conn, const struct memory *memory, struct mailbox *mailbox)
{
    size_t size = 0;
    int status = mailbox_wait(args, mailbox, conn, MESSAGE_RECEIVED);
    if (status == STATUS_OK)
        status = gpspm_persist(memory, mailbox, &size);
    if (status == STATUS_OK)
        status = mailbox_send(mailbox, conn, size);
    return status ? status : mailbox_wait(args, mailbox, conn, MESSAGE_SENT);
}

static int serve(
        const struct arguments *args, struct rpma_peer *peer, const struct rpma_conn_cfg *cfg, const void *context)
{
    (void)context;
    struct memory memory = {0};
    struct mailbox mailbox = {0};
    struct rpma_mr_local *dst = NULL;
    struct rpma_conn *conn = NULL;
    struct handshake handshake;
    const struct rpma_conn_private_data pdata = handshake_private_data(&handshake);

    int status = hello_open_area(args, &memory);
    if (status == STATUS_OK)
        status = register_memory(peer, &memory,
                RPMA_MR_USAGE_WRITE_DST |
                        (memory.map ? RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT : RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY),
                &dst);
    if (status == STATUS_OK)
        status = handshake_make(&handshake, dst, memory.data_offset, NULL);
    if (status == STATUS_OK)
        status = mailbox_open(&mailbox, peer, GPSPM_SLOT_SIZE, NULL);
    if (status == STATUS_OK)
        status = accept_one_client(args, peer, cfg, &pdata, mailbox_inspect_request, &mailbox, &conn);
    if (status == STATUS_OK)
        status = answer(args, conn, &memory, &mailbox);
    if (status == STATUS_OK)
        status = wait_for_disconnect(args, conn);
    if (status == STATUS_OK)
        status = hello_print_area(&memory);

    status |= check("rpma_conn_delete", rpma_conn_delete(&conn));
    status |= mailbox_close(&mailbox);
    status |= check("rpma_mr_dereg", rpma_mr_dereg(&dst));
    memory_close(&memory);
    return status;
}

int gpspm_client(int argc, char **argv, configure_conn *configure)
{
    static const struct program program = {
            .purpose = "Writes a text to the server's persistent memory, asks the server to persist it, and translates "
                       "it.",
            .operands = HELLO_CLIENT_OPERANDS,
            .operands_help = HELLO_CLIENT_OPERANDS_HELP,
            .max_operands = HELLO_CLIENT_MAX_OPERANDS,
            .timeout_s = 30,
    };
    const struct arguments args = arguments_parse(argc, argv, &program);
    return variant_run(&args, RPMA_UTIL_IBV_CONTEXT_REMOTE, configure, write_text, NULL);
}

int gpspm_server(int argc, char **argv, configure_conn *configure)
{
    static const struct program program = {
            .purpose =
                    "Lets one client write a text to this server's persistent memory, and persists it when asked to.",
            .operands = "[<pmem-path>]",
            .operands_help = HELLO_SERVER_OPERANDS_HELP,
            .max_operands = HELLO_SERVER_MAX_OPERANDS,
            .retry_s = RETRY_NOT_OFFERED,
    };
    const struct arguments args = arguments_parse(argc, argv, &program);
    return variant_run(&args, RPMA_UTIL_IBV_CONTEXT_LOCAL, configure, serve, NULL);
}
