// SPDX-License-Identifier: BSD-3-Clause
#include <err.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <librpma.h>

#include "arguments.h"
#include "connection.h"
#include "handshake.h"
#include "immediate.h"
#include "memory.h"
#include "region.h"
#include "status.h"

enum {
    DATA_SIZE = 1024
};

static const char recv_name[] = "rpma_conn_req_recv";

static const struct program program = {
        .purpose = "Lets one client write a value to this server's memory, and learns of it through immediate data.",
        .operands = "",
        .operands_help = "",
        .retry_s = RETRY_NOT_OFFERED,
};

/* A write with immediate data consumes a receive. The buffer must exist, but stays unused. */
static int expect_immediate(struct rpma_conn_req *req, void *context)
{
    return check(recv_name, rpma_conn_req_recv(req, context, 0, 1, recv_name));
}

static int receive(const struct arguments *args, struct rpma_conn *conn, const struct memory *data)
{
    struct ibv_wc wc;
    uint32_t imm = 0;
    uint32_t value = 0;

    const int status = immediate_wait(args, conn, recv_name, IBV_WC_RECV_RDMA_WITH_IMM, &wc, &imm);
    if (status != STATUS_OK)
        return status;

    memcpy(&value, data->base, sizeof(value));
    if (value != imm) {
        warnx("the value '%" PRIu32 "' was written, the immediate data is '%" PRIu32 "'", value, imm);
        return STATUS_FAILED;
    }
    printf("The value '%" PRIu32 "' was written together with immediate data '%" PRIu32 "'\n", value, imm);
    return STATUS_OK;
}

int main(int argc, char **argv)
{
    const struct arguments args = arguments_parse(argc, argv, &program);
    struct memory data = {0};
    struct memory unused = {0};
    struct rpma_peer *peer = NULL;
    struct rpma_mr_local *dst = NULL;
    struct rpma_mr_local *recv = NULL;
    struct rpma_conn *conn = NULL;
    struct handshake handshake;
    const struct rpma_conn_private_data pdata = handshake_private_data(&handshake);

    int status = open_peer(&args, RPMA_UTIL_IBV_CONTEXT_LOCAL, &peer);
    if (status == STATUS_OK)
        status = memory_allocate(&data, DATA_SIZE);
    if (status == STATUS_OK)
        status = memory_allocate(&unused, 1);
    if (status == STATUS_OK)
        status = register_memory(peer, &data, RPMA_MR_USAGE_WRITE_DST, &dst);
    if (status == STATUS_OK)
        status = register_memory(peer, &unused, RPMA_MR_USAGE_RECV, &recv);
    if (status == STATUS_OK)
        status = handshake_make(&handshake, dst, 0, NULL);
    if (status == STATUS_OK)
        status = accept_one_client(&args, peer, NULL, &pdata, expect_immediate, recv, &conn);
    if (status == STATUS_OK)
        status = receive(&args, conn, &data);
    if (status == STATUS_OK)
        status = wait_for_disconnect(&args, conn);

    status |= check("rpma_conn_delete", rpma_conn_delete(&conn));
    status |= check("rpma_mr_dereg", rpma_mr_dereg(&recv));
    status |= check("rpma_mr_dereg", rpma_mr_dereg(&dst));
    status |= check("rpma_peer_delete", rpma_peer_delete(&peer));
    memory_close(&unused);
    memory_close(&data);
    return status;
}
