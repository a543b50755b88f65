// SPDX-License-Identifier: BSD-3-Clause
/*
 * Reads a text from the client's memory into its own persistent memory. See example 01 for connecting.
 *
 *     cc server.c -o server $(pkg-config --cflags --libs librpma libpmem2)
 */
#include "../common/common_pmem.h"

#include <librpma.h>

static const char read_name[] = "rpma_read";

static const struct program program = {
        .purpose = "Reads a text from the client's memory into its own persistent memory.",
        .operands = "[<pmem-path>]",
        .operands_help = HELLO_SERVER_OPERANDS_HELP,
        .max_operands = HELLO_SERVER_MAX_OPERANDS,
        .retry_s = RETRY_NOT_OFFERED,
};

struct source {
    struct rpma_mr_remote *mr;
    size_t offset;
};

/* Takes the location of the text from the request. Rejects a request without it. */
static int find_source(struct rpma_conn_req *req, void *context)
{
    struct source *src = context;
    struct rpma_conn_private_data pdata = {0};
    const int status = check("rpma_conn_req_get_private_data", rpma_conn_req_get_private_data(req, &pdata));
    return status ? status : handshake_parse(&pdata, HELLO_TEXT_SIZE, &src->mr, &src->offset, NULL);
}

static int read_text(const struct arguments *args, struct rpma_conn *conn, const struct source *src,
        struct rpma_mr_local *dst, const struct memory *memory)
{
    int status = check(read_name, rpma_read(conn, dst, memory->data_offset, src->mr, src->offset, HELLO_TEXT_SIZE,
                                          RPMA_F_COMPLETION_ALWAYS, read_name));
    if (status == STATUS_OK)
        status = wait_for_completion(args, conn, read_name);
    if (status == STATUS_OK) /* a completed read is visible to the CPU, but might not be in PMem yet */
        memory_persist(memory, HELLO_TEXT_SIZE);
    return status ? status : hello_print_area(memory);
}

int main(int argc, char **argv)
{
    const struct arguments args = arguments_parse(argc, argv, &program);
    struct memory memory = {0};
    struct rpma_peer *peer = NULL;
    struct rpma_mr_local *dst = NULL;
    struct source src = {0};
    struct rpma_conn *conn = NULL;

    int status = open_peer(&args, RPMA_UTIL_IBV_CONTEXT_LOCAL, &peer);
    if (status == STATUS_OK)
        status = hello_open_area(&args, &memory);
    if (status == STATUS_OK)
        status = explain_mr_reg(memory.size, rpma_mr_reg(peer, memory.base, memory.size, RPMA_MR_USAGE_READ_DST, &dst));
    if (status == STATUS_OK)
        status = accept_one_client(&args, peer, NULL, NULL, find_source, &src, &conn);
    if (status == STATUS_OK)
        status = read_text(&args, conn, &src, dst, &memory);
    if (status == STATUS_OK)
        status = disconnect(&args, conn);

    status |= check("rpma_conn_delete", rpma_conn_delete(&conn));
    status |= check("rpma_mr_remote_delete", rpma_mr_remote_delete(&src.mr));
    status |= check("rpma_mr_dereg", rpma_mr_dereg(&dst));
    status |= check("rpma_peer_delete", rpma_peer_delete(&peer));
    memory_close(&memory);
    return status;
}
