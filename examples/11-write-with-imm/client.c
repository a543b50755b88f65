// SPDX-License-Identifier: BSD-3-Clause
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <librpma.h>

#include "arguments.h"
#include "completion.h"
#include "connection.h"
#include "handshake.h"
#include "immediate.h"
#include "memory.h"
#include "region.h"
#include "status.h"

enum {
    DATA_SIZE = 1024
};

static const char write_name[] = "rpma_write_with_imm";

static const struct program program = {
        .purpose = "Writes a value to the server's memory and sends the same value along as immediate data.",
        .operands = "<imm>",
        .operands_help = IMMEDIATE_HELP,
        .min_operands = 1,
        .max_operands = 1,
        .timeout_s = 30,
};

static int write_value(
        const struct arguments *args, struct rpma_conn *conn, const struct rpma_mr_local *src, uint32_t imm)
{
    struct rpma_conn_private_data pdata = {0};
    struct rpma_mr_remote *dst = NULL;
    size_t dst_offset = 0;

    printf("Writing value '%" PRIu32 "' with immediate data '%" PRIu32 "'\n", imm, imm);
    int status = check("rpma_conn_get_private_data", rpma_conn_get_private_data(conn, &pdata));
    if (status == STATUS_OK)
        status = handshake_parse(&pdata, DATA_SIZE, &dst, &dst_offset, NULL);
    if (status == STATUS_OK)
        status = check(write_name, rpma_write_with_imm(conn, dst, dst_offset, src, 0, DATA_SIZE,
                                           RPMA_F_COMPLETION_ALWAYS, imm, write_name));
    if (status == STATUS_OK)
        status = wait_for_completion(args, conn, write_name);

    status |= check("rpma_mr_remote_delete", rpma_mr_remote_delete(&dst));
    return status;
}

int main(int argc, char **argv)
{
    const struct arguments args = arguments_parse(argc, argv, &program);
    const uint32_t imm = immediate_parse(&args);
    struct memory memory = {0};
    struct rpma_peer *peer = NULL;
    struct rpma_mr_local *src = NULL;
    struct rpma_conn *conn = NULL;

    int status = open_peer(&args, RPMA_UTIL_IBV_CONTEXT_REMOTE, &peer);
    if (status == STATUS_OK)
        status = memory_allocate(&memory, DATA_SIZE);
    if (status == STATUS_OK) {
        memcpy(memory.base, &imm, sizeof(imm));
        status = register_memory(peer, &memory, RPMA_MR_USAGE_WRITE_SRC, &src);
    }
    if (status == STATUS_OK)
        status = connect_to_server(&args, peer, NULL, NULL, &conn);
    if (status == STATUS_OK)
        status = write_value(&args, conn, src, imm);
    if (status == STATUS_OK)
        status = disconnect(&args, conn);

    status |= check("rpma_conn_delete", rpma_conn_delete(&conn));
    status |= check("rpma_mr_dereg", rpma_mr_dereg(&src));
    status |= check("rpma_peer_delete", rpma_peer_delete(&peer));
    memory_close(&memory);
    return status;
}
