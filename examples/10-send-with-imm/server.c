// SPDX-License-Identifier: BSD-3-Clause
#include <err.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <librpma.h>

#include "arguments.h"
#include "connection.h"
#include "immediate.h"
#include "memory.h"
#include "region.h"
#include "status.h"
#include "text.h"

enum {
    MESSAGE_SIZE = 1024
};

static const char recv_name[] = "rpma_conn_req_recv";

static const struct program program = {
        .purpose = "Receives a message with immediate data, which must be what the client announced.",
        .operands = "",
        .operands_help = "",
        .retry_s = RETRY_NOT_OFFERED,
};

struct mail {
    struct memory memory;
    struct rpma_mr_local *mr;
    uint32_t announced;
};

/* Reads the announcement of the client, and posts a receive before the client can send. */
static int prepare(struct rpma_conn_req *req, void *context)
{
    struct mail *mail = context;
    struct rpma_conn_private_data pdata = {0};

    const int status = check("rpma_conn_req_get_private_data", rpma_conn_req_get_private_data(req, &pdata));
    if (status != STATUS_OK)
        return status;
    if (!pdata.ptr || pdata.len < sizeof(mail->announced)) {
        warnx("the client announced no immediate data (does it run another example?)");
        return STATUS_FAILED;
    }
    memcpy(&mail->announced, pdata.ptr, sizeof(mail->announced));
    return check(recv_name, rpma_conn_req_recv(req, mail->mr, 0, MESSAGE_SIZE, recv_name));
}

static int receive(const struct arguments *args, struct rpma_conn *conn, const struct mail *mail)
{
    struct ibv_wc wc;
    uint32_t imm = 0;

    const int status = immediate_wait(args, conn, recv_name, IBV_WC_RECV, &wc, &imm);
    if (status != STATUS_OK)
        return status;
    if (imm != mail->announced) {
        warnx("immediate data '%" PRIu32 "' received instead of the announced '%" PRIu32 "'", imm, mail->announced);
        return STATUS_FAILED;
    }
    if (wc.byte_len == 0) {
        printf("Received immediate data '%" PRIu32 "'\n", imm);
        return STATUS_OK;
    }
    if (check_text("Received value", mail->memory.base, wc.byte_len) != STATUS_OK)
        return STATUS_FAILED;
    printf("Received value '%s' with immediate data '%" PRIu32 "'\n", mail->memory.base, imm);
    return STATUS_OK;
}

int main(int argc, char **argv)
{
    const struct arguments args = arguments_parse(argc, argv, &program);
    struct mail mail = {0};
    struct rpma_peer *peer = NULL;
    struct rpma_conn *conn = NULL;

    int status = open_peer(&args, RPMA_UTIL_IBV_CONTEXT_LOCAL, &peer);
    if (status == STATUS_OK)
        status = memory_allocate(&mail.memory, MESSAGE_SIZE);
    if (status == STATUS_OK)
        status = register_memory(peer, &mail.memory, RPMA_MR_USAGE_RECV, &mail.mr);
    if (status == STATUS_OK)
        status = accept_one_client(&args, peer, NULL, NULL, prepare, &mail, &conn);
    if (status == STATUS_OK)
        status = receive(&args, conn, &mail);
    if (status == STATUS_OK)
        status = wait_for_disconnect(&args, conn);

    status |= check("rpma_conn_delete", rpma_conn_delete(&conn));
    status |= check("rpma_mr_dereg", rpma_mr_dereg(&mail.mr));
    status |= check("rpma_peer_delete", rpma_peer_delete(&peer));
    memory_close(&mail.memory);
    return status;
}
