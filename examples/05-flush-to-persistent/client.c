// SPDX-License-Identifier: BSD-3-Clause
/*
 * Writes a text to the server's persistent memory and flushes it there. See example 01 for connecting.
 *
 *     cc client.c -o client $(pkg-config --cflags --libs librpma libpmem2)
 */
#include "../common/common_pmem.h"

#include <librpma.h>

static const char write_name[] = "rpma_write";
static const char flush_name[] = "rpma_flush";

static const struct program program = {
        .purpose = "Writes a text to the server's persistent memory, flushes it, and translates it.",
        .operands = HELLO_CLIENT_OPERANDS,
        .operands_help = HELLO_CLIENT_OPERANDS_HELP,
        .max_operands = HELLO_CLIENT_MAX_OPERANDS,
        .timeout_s = 30,
};

/* Selects the strongest flush that the server supports: visibility, if it has sent no peer configuration. */
static int choose_flush(struct rpma_conn *conn, const struct rpma_peer_cfg *pcfg, enum rpma_flush_type *type)
{
    bool direct_write = false;
    int status = STATUS_OK;

    if (pcfg)
        status = check(
                "rpma_peer_cfg_get_direct_write_to_pmem", rpma_peer_cfg_get_direct_write_to_pmem(pcfg, &direct_write));
    if (status == STATUS_OK && pcfg)
        status = check("rpma_conn_apply_remote_peer_cfg", rpma_conn_apply_remote_peer_cfg(conn, pcfg));
    if (status != STATUS_OK)
        return status;

    *type = direct_write ? RPMA_FLUSH_TYPE_PERSISTENT : RPMA_FLUSH_TYPE_VISIBILITY;
    puts(direct_write ? "RPMA_FLUSH_TYPE_PERSISTENT is supported"
                      : "RPMA_FLUSH_TYPE_PERSISTENT is not supported, using RPMA_FLUSH_TYPE_VISIBILITY");
    return STATUS_OK;
}

static int write_and_flush(
        const struct arguments *args, struct rpma_conn *conn, const struct rpma_mr_local *src, size_t src_offset)
{
    struct rpma_conn_private_data pdata = {0};
    struct rpma_mr_remote *dst = NULL;
    struct rpma_peer_cfg *pcfg = NULL;
    size_t dst_offset = 0;
    enum rpma_flush_type type = RPMA_FLUSH_TYPE_VISIBILITY;

    int status = check("rpma_conn_get_private_data", rpma_conn_get_private_data(conn, &pdata));
    if (status == STATUS_OK)
        status = handshake_parse(&pdata, HELLO_TEXT_SIZE, &dst, &dst_offset, &pcfg);
    if (status == STATUS_OK)
        status = choose_flush(conn, pcfg, &type);
    if (status == STATUS_OK)
        status = check(write_name, rpma_write(conn, dst, dst_offset, src, src_offset, HELLO_TEXT_SIZE,
                                           RPMA_F_COMPLETION_ON_ERROR, write_name));
    if (status == STATUS_OK) /* executed after the write, so its completion covers both */
        status = check(flush_name,
                rpma_flush(conn, dst, dst_offset, HELLO_TEXT_SIZE, type, RPMA_F_COMPLETION_ALWAYS, flush_name));
    if (status == STATUS_OK)
        status = wait_for_completion(args, conn, flush_name);

    status |= check("rpma_peer_cfg_delete", rpma_peer_cfg_delete(&pcfg));
    status |= check("rpma_mr_remote_delete", rpma_mr_remote_delete(&dst));
    return status;
}

int main(int argc, char **argv)
{
    const struct arguments args = arguments_parse(argc, argv, &program);
    struct memory memory = {0};
    struct rpma_peer *peer = NULL;
    struct rpma_mr_local *src = NULL;
    struct rpma_conn *conn = NULL;

    int status = open_peer(&args, RPMA_UTIL_IBV_CONTEXT_REMOTE, &peer);
    if (status == STATUS_OK)
        status = hello_open_record(&args, &memory);
    if (status == STATUS_OK)
        status =
                explain_mr_reg(memory.size, rpma_mr_reg(peer, memory.base, memory.size, RPMA_MR_USAGE_WRITE_SRC, &src));
    if (status == STATUS_OK)
        status = connect_to_server(&args, peer, NULL, NULL, &conn);
    if (status == STATUS_OK)
        status = write_and_flush(&args, conn, src, memory.data_offset + HELLO_TEXT_OFFSET);
    if (status == STATUS_OK)
        status = hello_translate(&memory);
    if (status == STATUS_OK)
        status = disconnect(&args, conn);

    status |= check("rpma_conn_delete", rpma_conn_delete(&conn));
    status |= check("rpma_mr_dereg", rpma_mr_dereg(&src));
    status |= check("rpma_peer_delete", rpma_peer_delete(&peer));
    memory_close(&memory);
    return status;
}
