// SPDX-License-Identifier: BSD-3-Clause
/*
 * Writes a text to the server's persistent memory, and reads a few bytes back to ensure that the text has arrived.
 *
 *     cc client.c -o client $(pkg-config --cflags --libs librpma libpmem2)
 */
#include "../common/common_pmem.h"

#include <librpma.h>

/* Destination of the read. */
static char bytes[8];

/* Writes the text. Each step runs only if the steps before it succeeded. Returns an exit status. */
static int write_text(const struct arguments *args)
{
    struct memory text = {0};
    struct rpma_peer *peer = NULL;
    struct rpma_mr_local *src = NULL;
    struct rpma_mr_local *raw = NULL;
    struct rpma_conn_req *req = NULL;
    struct rpma_conn *conn = NULL;
    enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
    int64_t deadline_ms = 0;
    struct rpma_conn_private_data pdata = {0};
    struct handshake_fields sent = {0};
    struct rpma_mr_remote *dst = NULL;
    struct rpma_cq *cq = NULL;
    struct ibv_wc wc = {0};
    int ret = 0;

    int status = open_peer(args, RPMA_UTIL_IBV_CONTEXT_REMOTE, &peer); /* rpma_peer_new: see example 01 */
    status = status ? status : hello_open_record(args, &text);
    if (status == STATUS_OK)
        status = explain_mr_reg(text.size, rpma_mr_reg(peer, text.base, text.size, RPMA_MR_USAGE_WRITE_SRC, &src));
    if (status == STATUS_OK)
        status = explain_mr_reg(sizeof(bytes), rpma_mr_reg(peer, bytes, sizeof(bytes), RPMA_MR_USAGE_READ_DST, &raw));

    do { /* repeats a rejected request for --retry seconds, because the server might not have started yet */
        status = status ? status : explain_request(args, rpma_conn_req_new(peer, args->addr, args->port, NULL, &req));
        status = status ? status : check("rpma_conn_req_connect", rpma_conn_req_connect(&req, NULL, &conn));
        status = status ? status : wait_for_event(args, conn);
        status = status ? status : check("rpma_conn_next_event", rpma_conn_next_event(conn, &event));
    } while (try_again(args, event, &deadline_ms, &conn, &status));
    status = status ? status : check("rpma_conn_get_private_data", rpma_conn_get_private_data(conn, &pdata));
    status = status ? status : handshake_read(&pdata, &sent);
    if (status == STATUS_OK)
        status = check("rpma_mr_remote_from_descriptor", rpma_mr_remote_from_descriptor(sent.mr, sent.mr_size, &dst));
    status = status ? status : handshake_check_range(dst, sent.data_offset, HELLO_TEXT_SIZE);

    /* The read is executed after the write, so its completion means that the write has arrived. */
    if (status == STATUS_OK)
        status = check("rpma_write", rpma_write(conn, dst, sent.data_offset, src, text.data_offset + HELLO_TEXT_OFFSET,
                                             HELLO_TEXT_SIZE, RPMA_F_COMPLETION_ON_ERROR, "rpma_write"));
    if (status == STATUS_OK)
        status = check(
                "rpma_read", rpma_read(conn, raw, 0, dst, 0, sizeof(bytes), RPMA_F_COMPLETION_ALWAYS, "rpma_read"));
    status = status ? status : check("rpma_conn_get_cq", rpma_conn_get_cq(conn, &cq));
    while (status == STATUS_OK && (ret = rpma_cq_get_wc(cq, 1, &wc, NULL)) == RPMA_E_NO_COMPLETION)
        status = wait_for_cq(args, conn);
    status = status ? status : check("rpma_cq_get_wc", ret);
    status = status ? status : check_completion_of("rpma_read", &wc);
    status = status ? status : hello_translate(&text);
    status = status ? status : check("rpma_conn_disconnect", rpma_conn_disconnect(conn));
    status = status ? status : expect_event(args, conn, RPMA_CONN_CLOSED);

    status |= check("rpma_mr_remote_delete", rpma_mr_remote_delete(&dst));
    status |= check("rpma_conn_delete", rpma_conn_delete(&conn));
    status |= check("rpma_mr_dereg", rpma_mr_dereg(&raw));
    status |= check("rpma_mr_dereg", rpma_mr_dereg(&src));
    status |= check("rpma_peer_delete", rpma_peer_delete(&peer));
    memory_close(&text);
    return status;
}

static const struct program program = {
        .purpose = "Writes a text to the server's persistent memory, makes sure by a read that it is there, and "
                   "translates it.",
        .operands = HELLO_CLIENT_OPERANDS,
        .operands_help = HELLO_CLIENT_OPERANDS_HELP,
        .max_operands = HELLO_CLIENT_MAX_OPERANDS,
        .timeout_s = 30,
};

int main(int argc, char **argv)
{
    const struct arguments args = arguments_parse(argc, argv, &program);
    return write_text(&args);
}
