// SPDX-License-Identifier: BSD-3-Clause
/*
 * Reads a greeting from the server's memory without the server's CPU.
 *
 *     cc client.c -o client $(pkg-config --cflags --libs librpma)
 */
#include "../common/common.h"

#include <librpma.h>

/* Destination of the read. */
static char text[1024];

/* Reads the greeting. Each step runs only if the steps before it succeeded. Returns an exit status. */
static int read_greeting(const struct arguments *args)
{
    struct rpma_peer *peer = NULL;
    struct rpma_mr_local *dst = NULL;
    struct rpma_conn_req *req = NULL;
    struct rpma_conn *conn = NULL;
    enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
    int64_t deadline_ms = 0;
    struct rpma_conn_private_data pdata = {0};
    struct handshake_fields sent = {0};
    struct rpma_mr_remote *src = NULL;
    size_t size = 0;
    struct rpma_cq *cq = NULL;
    struct ibv_wc wc = {0};
    int ret = 0;

    int status = open_peer(args, RPMA_UTIL_IBV_CONTEXT_REMOTE, &peer); /* rpma_peer_new: see example 01 */
    if (status == STATUS_OK)
        status = explain_mr_reg(sizeof(text), rpma_mr_reg(peer, text, sizeof(text), RPMA_MR_USAGE_READ_DST, &dst));

    do { /* repeats a rejected request for --retry seconds, because the server might not have started yet */
        status = status ? status : explain_request(args, rpma_conn_req_new(peer, args->addr, args->port, NULL, &req));
        status = status ? status : check("rpma_conn_req_connect", rpma_conn_req_connect(&req, NULL, &conn));
        status = status ? status : wait_for_event(args, conn);
        status = status ? status : check("rpma_conn_next_event", rpma_conn_next_event(conn, &event));
    } while (try_again(args, event, &deadline_ms, &conn, &status));

    /* The server has sent the location of its memory. */
    status = status ? status : check("rpma_conn_get_private_data", rpma_conn_get_private_data(conn, &pdata));
    status = status ? status : handshake_read(&pdata, &sent);
    if (status == STATUS_OK)
        status = check("rpma_mr_remote_from_descriptor", rpma_mr_remote_from_descriptor(sent.mr, sent.mr_size, &src));
    status = status ? status : handshake_check_range(src, sent.data_offset, 1);
    status = status ? status : check("rpma_mr_remote_get_size", rpma_mr_remote_get_size(src, &size));
    if (status == STATUS_OK && size > sizeof(text)) {
        warnx("the server offers %zu bytes, at most %zu expected (does it run another example?)", size, sizeof(text));
        status = STATUS_FAILED;
    }
    if (status == STATUS_OK)
        status = check("rpma_read", rpma_read(conn, dst, 0, src, 0, size, RPMA_F_COMPLETION_ALWAYS, "rpma_read"));
    status = status ? status : check("rpma_conn_get_cq", rpma_conn_get_cq(conn, &cq));
    while (status == STATUS_OK && (ret = rpma_cq_get_wc(cq, 1, &wc, NULL)) == RPMA_E_NO_COMPLETION)
        status = wait_for_cq(args, conn);
    status = status ? status : check("rpma_cq_get_wc", ret);
    status = status ? status : check_completion_of("rpma_read", &wc);
    status = status ? status : print_text("Read a message", text, size);
    status = status ? status : check("rpma_conn_disconnect", rpma_conn_disconnect(conn));
    status = status ? status : expect_event(args, conn, RPMA_CONN_CLOSED);

    status |= check("rpma_mr_remote_delete", rpma_mr_remote_delete(&src));
    status |= check("rpma_conn_delete", rpma_conn_delete(&conn));
    status |= check("rpma_mr_dereg", rpma_mr_dereg(&dst));
    status |= check("rpma_peer_delete", rpma_peer_delete(&peer));
    return status;
}

static const struct program program = {
        .purpose = "Reads a greeting from the server's memory into its own.",
        .operands = "",
        .operands_help = "",
        .timeout_s = 30,
};

int main(int argc, char **argv)
{
    const struct arguments args = arguments_parse(argc, argv, &program);
    return read_greeting(&args);
}
