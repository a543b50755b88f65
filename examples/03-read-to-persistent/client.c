// SPDX-License-Identifier: BSD-3-Clause
/*
 * Lets the server read a text into its persistent memory, then translates the text. See example 01 for connecting.
 *
 *     cc client.c -o client $(pkg-config --cflags --libs librpma libpmem2)
 */
#include "../common/common_pmem.h"

#include <librpma.h>

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
    struct memory memory = {0};
    struct rpma_peer *peer = NULL;
    struct rpma_mr_local *mr = NULL;
    struct rpma_conn *conn = NULL;
    struct handshake handshake;
    const struct rpma_conn_private_data pdata = handshake_private_data(&handshake);

    int status = open_peer(&args, RPMA_UTIL_IBV_CONTEXT_REMOTE, &peer);
    if (status == STATUS_OK)
        status = hello_open_record(&args, &memory);
    if (status == STATUS_OK)
        status = explain_mr_reg(memory.size, rpma_mr_reg(peer, memory.base, memory.size, RPMA_MR_USAGE_READ_SRC, &mr));
    if (status == STATUS_OK)
        status = handshake_make(&handshake, mr, memory.data_offset + HELLO_TEXT_OFFSET, NULL);
    if (status == STATUS_OK)
        status = connect_to_server(&args, peer, NULL, &pdata, &conn);
    if (status == STATUS_OK) /* the server disconnects after it has read the text */
        status = wait_for_disconnect(&args, conn);
    if (status == STATUS_OK)
        status = hello_translate(&memory);

    status |= check("rpma_conn_delete", rpma_conn_delete(&conn));
    status |= check("rpma_mr_dereg", rpma_mr_dereg(&mr));
    status |= check("rpma_peer_delete", rpma_peer_delete(&peer));
    memory_close(&memory);
    return status;
}
