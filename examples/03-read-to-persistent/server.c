// SPDX-License-Identifier: BSD-3-Clause
/*
 * Reads a text from the client's memory into its own persistent memory.
 *
 *     cc server.c -o server $(pkg-config --cflags --libs librpma libpmem2)
 */
#include "../common/common_pmem.h"

#include <librpma.h>

/* Reads the text of one client. Each step runs only if the steps before it succeeded. Returns an exit status. */
static int read_text(const struct arguments *args)
{
    struct memory memory = {0};
    struct rpma_peer *peer = NULL;
    struct rpma_mr_local *dst = NULL;
    struct rpma_ep *ep = NULL;
    struct rpma_conn_req *req = NULL;
    struct rpma_conn *conn = NULL;
    enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
    struct rpma_conn_private_data pdata = {0};
    struct handshake_fields sent = {0};
    struct rpma_mr_remote *src = NULL;
    struct rpma_cq *cq = NULL;
    struct ibv_wc wc = {0};
    int ret = 0;

    int status = open_peer(args, RPMA_UTIL_IBV_CONTEXT_LOCAL, &peer); /* rpma_peer_new: see example 01 */
    status = status ? status : hello_open_area(args, &memory);
    if (status == STATUS_OK)
        status = explain_mr_reg(memory.size, rpma_mr_reg(peer, memory.base, memory.size, RPMA_MR_USAGE_READ_DST, &dst));

    status = status ? status : explain_listening(args, rpma_ep_listen(peer, args->addr, args->port, &ep));
    status = status ? status : wait_for_request(args, ep);
    status = status ? status : check("rpma_ep_next_conn_req", rpma_ep_next_conn_req(ep, NULL, &req));

    /* The request contains the location of the text. A request without it is rejected. */
    status = status ? status : check("rpma_conn_req_get_private_data", rpma_conn_req_get_private_data(req, &pdata));
    status = status ? status : handshake_read(&pdata, &sent);
    if (status == STATUS_OK)
        status = check("rpma_mr_remote_from_descriptor", rpma_mr_remote_from_descriptor(sent.mr, sent.mr_size, &src));
    status = status ? status : handshake_check_range(src, sent.data_offset, HELLO_TEXT_SIZE);
    status = status ? status : check("rpma_conn_req_connect", rpma_conn_req_connect(&req, NULL, &conn));
    status = status ? status : wait_for_event(args, conn);
    status = status ? status : check("rpma_conn_next_event", rpma_conn_next_event(conn, &event));
    status = status ? status : check_event(event, RPMA_CONN_ESTABLISHED);
    status |= check("rpma_conn_req_delete", rpma_conn_req_delete(&req)); /* rejects a request that is not accepted */
    status |= check("rpma_ep_shutdown", rpma_ep_shutdown(&ep));          /* serves only one client */

    if (status == STATUS_OK)
        status = check("rpma_read", rpma_read(conn, dst, memory.data_offset, src, sent.data_offset, HELLO_TEXT_SIZE,
                                            RPMA_F_COMPLETION_ALWAYS, "rpma_read"));
    status = status ? status : check("rpma_conn_get_cq", rpma_conn_get_cq(conn, &cq));
    while (status == STATUS_OK && (ret = rpma_cq_get_wc(cq, 1, &wc, NULL)) == RPMA_E_NO_COMPLETION)
        status = wait_for_cq(args, conn);
    status = status ? status : check("rpma_cq_get_wc", ret);
    status = status ? status : check_completion_of("rpma_read", &wc);
    if (status == STATUS_OK) /* a completed read is visible to the CPU, but might not be in PMem yet */
        memory_persist(&memory, HELLO_TEXT_SIZE);
    status = status ? status : hello_print_area(&memory);
    status = status ? status : check("rpma_conn_disconnect", rpma_conn_disconnect(conn));
    status = status ? status : expect_event(args, conn, RPMA_CONN_CLOSED);

    status |= check("rpma_conn_delete", rpma_conn_delete(&conn));
    status |= check("rpma_mr_remote_delete", rpma_mr_remote_delete(&src));
    status |= check("rpma_mr_dereg", rpma_mr_dereg(&dst));
    status |= check("rpma_peer_delete", rpma_peer_delete(&peer));
    memory_close(&memory);
    return status;
}

static const struct program program = {
        .purpose = "Reads a text from the client's memory into its own persistent memory.",
        .operands = "[<pmem-path>]",
        .operands_help = HELLO_SERVER_OPERANDS_HELP,
        .max_operands = HELLO_SERVER_MAX_OPERANDS,
        .retry_s = RETRY_NOT_OFFERED,
};

int main(int argc, char **argv)
{
    const struct arguments args = arguments_parse(argc, argv, &program);
    return read_text(&args);
}
