// SPDX-License-Identifier: BSD-3-Clause
/*
 * Writes a text to the server's persistent memory, and reads a few bytes back to ensure that the text has arrived. See
 * example 01 for connecting.
 *
 *     cc client.c -o client $(pkg-config --cflags --libs librpma libpmem2)
 */
#include "../common/common_pmem.h"

#include <librpma.h>

enum {
    RAW_SIZE = 8
};

static const char write_name[] = "rpma_write";
static const char read_name[] = "rpma_read";

static const struct program program = {
        .purpose = "Writes a text to the server's persistent memory, makes sure by a read that it is there, and "
                   "translates it.",
        .operands = HELLO_CLIENT_OPERANDS,
        .operands_help = HELLO_CLIENT_OPERANDS_HELP,
        .max_operands = HELLO_CLIENT_MAX_OPERANDS,
        .timeout_s = 30,
};

static int write_text(const struct arguments *args, struct rpma_conn *conn, const struct rpma_mr_local *src,
        size_t src_offset, struct rpma_mr_local *raw)
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
    if (status == STATUS_OK) /* executed after the write, so its completion means that the write has arrived */
        status = check(read_name, rpma_read(conn, raw, 0, dst, 0, RAW_SIZE, RPMA_F_COMPLETION_ALWAYS, read_name));
    if (status == STATUS_OK)
        status = wait_for_completion(args, conn, read_name);

    status |= check("rpma_mr_remote_delete", rpma_mr_remote_delete(&dst));
    return status;
}

int main(int argc, char **argv)
{
    const struct arguments args = arguments_parse(argc, argv, &program);
    struct memory memory = {0};
    struct memory raw_memory = {0};
    struct rpma_peer *peer = NULL;
    struct rpma_mr_local *src = NULL;
    struct rpma_mr_local *raw = NULL;
    struct rpma_conn *conn = NULL;

    int status = open_peer(&args, RPMA_UTIL_IBV_CONTEXT_REMOTE, &peer);
    if (status == STATUS_OK)
        status = hello_open_record(&args, &memory);
    if (status == STATUS_OK)
        status =
                explain_mr_reg(memory.size, rpma_mr_reg(peer, memory.base, memory.size, RPMA_MR_USAGE_WRITE_SRC, &src));
    if (status == STATUS_OK)
        status = memory_allocate(&raw_memory, RAW_SIZE);
    if (status == STATUS_OK)
        status = explain_mr_reg(RAW_SIZE, rpma_mr_reg(peer, raw_memory.base, RAW_SIZE, RPMA_MR_USAGE_READ_DST, &raw));
    if (status == STATUS_OK)
        status = connect_to_server(&args, peer, NULL, NULL, &conn);
    if (status == STATUS_OK)
        status = write_text(&args, conn, src, memory.data_offset + HELLO_TEXT_OFFSET, raw);
    if (status == STATUS_OK)
        status = hello_translate(&memory);
    if (status == STATUS_OK)
        status = disconnect(&args, conn);

    status |= check("rpma_conn_delete", rpma_conn_delete(&conn));
    status |= check("rpma_mr_dereg", rpma_mr_dereg(&raw));
    status |= check("rpma_mr_dereg", rpma_mr_dereg(&src));
    status |= check("rpma_peer_delete", rpma_peer_delete(&peer));
    memory_close(&raw_memory);
    memory_close(&memory);
    return status;
}
