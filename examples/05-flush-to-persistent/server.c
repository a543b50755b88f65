// SPDX-License-Identifier: BSD-3-Clause
/*
 * Lets one client write a text to this server's persistent memory and flush it. See example 01 for connecting.
 *
 *     cc server.c -o server $(pkg-config --cflags --libs librpma libpmem2)
 */
#include "../common/common_pmem.h"

#include <librpma.h>

static const struct program program = {
        .purpose = "Lets one client write a text to this server's persistent memory and flush it.",
        .operands = "[<pmem-path> [on|off]]",
        .operands_help = HELLO_SERVER_OPERANDS_HELP DIRECT_WRITE_HELP,
        .max_operands = HELLO_SERVER_MAX_OPERANDS + 1,
        .retry_s = RETRY_NOT_OFFERED,
};

int main(int argc, char **argv)
{
    const struct arguments args = arguments_parse(argc, argv, &program);
    const bool direct_write = direct_write_parse(&args, 1);
    struct memory memory = {0};
    struct rpma_peer *peer = NULL;
    struct rpma_mr_local *mr = NULL;
    struct rpma_conn *conn = NULL;
    struct handshake handshake;
    const struct rpma_conn_private_data pdata = handshake_private_data(&handshake);

    int status = open_peer(&args, RPMA_UTIL_IBV_CONTEXT_LOCAL, &peer);
    if (status == STATUS_OK)
        status = hello_open_area(&args, &memory);
    if (status == STATUS_OK)
        status = explain_mr_reg(memory.size,
                rpma_mr_reg(peer, memory.base, memory.size, direct_write_usage(&memory, direct_write), &mr));
    if (status == STATUS_OK)
        status = direct_write_describe(direct_write, mr, memory.data_offset, &handshake);
    if (status == STATUS_OK)
        status = accept_one_client(&args, peer, NULL, &pdata, NULL, NULL, &conn);
    if (status == STATUS_OK)
        status = wait_for_disconnect(&args, conn);
    if (status == STATUS_OK && !direct_write)
        memory_persist(&memory, HELLO_TEXT_SIZE);
    if (status == STATUS_OK)
        status = hello_print_area(&memory);

    status |= check("rpma_conn_delete", rpma_conn_delete(&conn));
    status |= check("rpma_mr_dereg", rpma_mr_dereg(&mr));
    status |= check("rpma_peer_delete", rpma_peer_delete(&peer));
    memory_close(&memory);
    return status;
}
