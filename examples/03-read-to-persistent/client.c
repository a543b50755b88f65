// SPDX-License-Identifier: BSD-3-Clause
/*
 * Lets the server read a text into its persistent memory, then translates the text.
 *
 *     cc client.c -o client $(pkg-config --cflags --libs librpma libpmem2)
 */
#include "../common/common_pmem.h"

#include <librpma.h>

/* Offers the text to the server. Each step runs only if the steps before it succeeded. Returns an exit status. */
static int offer_text(const struct arguments *args)
{
    struct memory memory = {0};
    struct rpma_peer *peer = NULL;
    struct rpma_mr_local *mr = NULL;
    struct handshake handshake;
    const struct rpma_conn_private_data pdata = handshake_private_data(&handshake);
    uint8_t *descriptor = handshake.bytes + HANDSHAKE_DESCRIPTORS_OFFSET;
    size_t descriptor_size = 0;
    struct rpma_conn_req *req = NULL;
    struct rpma_conn *conn = NULL;
    enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
    int64_t deadline_ms = 0;

    int status = open_peer(args, RPMA_UTIL_IBV_CONTEXT_REMOTE, &peer); /* rpma_peer_new: see example 01 */
    status = status ? status : hello_open_record(args, &memory);
    if (status == STATUS_OK)
        status = explain_mr_reg(memory.size, rpma_mr_reg(peer, memory.base, memory.size, RPMA_MR_USAGE_READ_SRC, &mr));

    /* Private data for the server: the descriptor of the region, and the offset of the text. */
    status = status ? status : check("rpma_mr_get_descriptor_size", rpma_mr_get_descriptor_size(mr, &descriptor_size));
    status = status ? status : handshake_begin(&handshake, memory.data_offset + HELLO_TEXT_OFFSET, descriptor_size, 0);
    status = status ? status : check("rpma_mr_get_descriptor", rpma_mr_get_descriptor(mr, descriptor));

    do { /* repeats a rejected request for --retry seconds, because the server might not have started yet */
        status = status ? status : explain_request(args, rpma_conn_req_new(peer, args->addr, args->port, NULL, &req));
        status = status ? status : check("rpma_conn_req_connect", rpma_conn_req_connect(&req, &pdata, &conn));
        status = status ? status : wait_for_event(args, conn);
        status = status ? status : check("rpma_conn_next_event", rpma_conn_next_event(conn, &event));
    } while (try_again(args, event, &deadline_ms, &conn, &status));

    /* The server reads the text without this program, and disconnects. */
    status = status ? status : expect_event(args, conn, RPMA_CONN_CLOSED);
    status = status ? status : check("rpma_conn_disconnect", rpma_conn_disconnect(conn));
    status = status ? status : hello_translate(&memory);

    status |= check("rpma_conn_delete", rpma_conn_delete(&conn));
    status |= check("rpma_mr_dereg", rpma_mr_dereg(&mr));
    status |= check("rpma_peer_delete", rpma_peer_delete(&peer));
    memory_close(&memory);
    return status;
}

static const struct program program = {
        .purpose = "Offers a text that the server reads into its persistent memory, then translates the text.",
        .operands = HELLO_CLIENT_OPERANDS,
        .operands_help = HELLO_CLIENT_OPERANDS_HELP,
        .max_operands = HELLO_CLIENT_MAX_OPERANDS,
        .timeout_s = 30,
};

int main(int argc, char **argv)
{
    const struct arguments args = arguments_parse(argc, argv, &program);
    return offer_text(&args);
}
