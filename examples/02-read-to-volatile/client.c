// SPDX-License-Identifier: BSD-3-Clause
/*
 * Reads a greeting from the server's memory without the server's CPU. See example 01 for connecting.
 *
 *     cc client.c -o client $(pkg-config --cflags --libs librpma)
 */
#include "../common/common.h"

#include <librpma.h>

/* Destination of the read. */
static char text[1024];

static const struct program program = {
        .purpose = "Reads a greeting from the server's memory into its own.",
        .operands = "",
        .operands_help = "",
        .timeout_s = 30,
};

/* Waits for the completion of the read. The CQ reports it with an event. */
static int wait_until_read(const struct arguments *args, struct rpma_conn *conn)
{
    struct rpma_cq *cq = NULL;
    struct pollfd fd = {.events = POLLIN};
    struct ibv_wc wc = {0};
    int ret = RPMA_E_NO_COMPLETION;

    int status = check("rpma_conn_get_cq", rpma_conn_get_cq(conn, &cq));
    if (status == STATUS_OK)
        status = check("rpma_cq_get_fd", rpma_cq_get_fd(cq, &fd.fd));
    while (status == STATUS_OK && ret == RPMA_E_NO_COMPLETION) {
        status = wait_readable(&fd, 1, args->timeout_s, "completion");
        if (status == STATUS_OK)
            status = check("rpma_cq_wait", rpma_cq_wait(cq));
        if (status == STATUS_OK) /* an event may have no completion if that was polled earlier */
            ret = rpma_cq_get_wc(cq, 1, &wc, NULL);
    }
    if (status == STATUS_OK)
        status = check("rpma_cq_get_wc", ret);
    if (status == STATUS_OK && wc.status != IBV_WC_SUCCESS) {
        warnx("rpma_read failed: %s", ibv_wc_status_str(wc.status));
        return STATUS_FAILED;
    }
    return status;
}

static int read_greeting(const struct arguments *args, struct rpma_conn *conn, struct rpma_mr_local *dst,
        const struct rpma_mr_remote *src)
{
    size_t size = 0;
    int status = check("rpma_mr_remote_get_size", rpma_mr_remote_get_size(src, &size));
    if (status == STATUS_OK && size > sizeof(text)) {
        warnx("the server offers %zu bytes, at most %zu expected (does it run another example?)", size, sizeof(text));
        return STATUS_FAILED;
    }
    if (status == STATUS_OK)
        status = check("rpma_read", rpma_read(conn, dst, 0, src, 0, size, RPMA_F_COMPLETION_ALWAYS, NULL));
    if (status == STATUS_OK)
        status = wait_until_read(args, conn);
    return status ? status : print_text("Read a message", text, size);
}

int main(int argc, char **argv)
{
    const struct arguments args = arguments_parse(argc, argv, &program);
    struct rpma_peer *peer = NULL;
    struct rpma_mr_local *dst = NULL;
    struct rpma_mr_remote *src = NULL;
    struct rpma_conn *conn = NULL;
    struct rpma_conn_private_data pdata = {0};
    size_t src_offset = 0;

    int status = open_peer(&args, RPMA_UTIL_IBV_CONTEXT_REMOTE, &peer);
    if (status == STATUS_OK)
        status = explain_mr_reg(sizeof(text), rpma_mr_reg(peer, text, sizeof(text), RPMA_MR_USAGE_READ_DST, &dst));
    if (status == STATUS_OK)
        status = connect_to_server(&args, peer, NULL, NULL, &conn);
    if (status == STATUS_OK)
        status = check("rpma_conn_get_private_data", rpma_conn_get_private_data(conn, &pdata));
    if (status == STATUS_OK) /* the server has sent the location of its memory */
        status = handshake_parse(&pdata, 1, &src, &src_offset, NULL);
    if (status == STATUS_OK)
        status = read_greeting(&args, conn, dst, src);
    if (status == STATUS_OK)
        status = disconnect(&args, conn);

    status |= check("rpma_mr_remote_delete", rpma_mr_remote_delete(&src));
    status |= check("rpma_conn_delete", rpma_conn_delete(&conn));
    status |= check("rpma_mr_dereg", rpma_mr_dereg(&dst));
    status |= check("rpma_peer_delete", rpma_peer_delete(&peer));
    return status;
}
