// SPDX-License-Identifier: BSD-3-Clause
#include <string.h>

#include <librpma.h>

#include "arguments.h"
#include "connection.h"
#include "ping_pong.h"
#include "status.h"

enum {
    RCQ_SIZE = 10
};

/* Completion queue for messages received in buffers of the shared receive queue. */
enum receive_queue {
    SRQ_RCQ,  /* queue of the shared receive queue */
    MAIN_CQ,  /* main completion queue of the connection */
    CONN_RCQ, /* receive completion queue of the connection */
};

static const struct program program = {
        .purpose = "Answers every number of one client with the next one, receiving through a shared receive queue.",
        .operands = "[m|r]",
        .operands_help =
                "  m|r              where receives complete: m: the connection's main completion queue, r: its\n"
                "                   receive completion queue; default: one of the shared receive queue's own\n",
        .max_operands = 1,
        .retry_s = RETRY_NOT_OFFERED,
};

static enum receive_queue parse_receive_queue(const struct arguments *args)
{
    const char *word = arguments_operand(args, 0);
    if (!word)
        return SRQ_RCQ;
    if (strcmp(word, "m") != 0 && strcmp(word, "r") != 0)
        usage_error("receives complete in m or r, not '%s'", word);
    return *word == 'm' ? MAIN_CQ : CONN_RCQ;
}

static int create_srq(struct rpma_peer *peer, enum receive_queue queue, struct rpma_srq **srq)
{
    struct rpma_srq_cfg *cfg = NULL;

    int status = check("rpma_srq_cfg_new", rpma_srq_cfg_new(&cfg));
    if (status == STATUS_OK && queue != SRQ_RCQ)
        status = check("rpma_srq_cfg_set_rcq_size", rpma_srq_cfg_set_rcq_size(cfg, 0));
    if (status == STATUS_OK)
        status = check("rpma_srq_new", rpma_srq_new(peer, cfg, srq));

    status |= check("rpma_srq_cfg_delete", rpma_srq_cfg_delete(&cfg));
    return status;
}

static int create_cfg(struct rpma_srq *srq, enum receive_queue queue, struct rpma_conn_cfg **cfg)
{
    int status = check("rpma_conn_cfg_new", rpma_conn_cfg_new(cfg));
    if (status == STATUS_OK && queue == CONN_RCQ)
        status = check("rpma_conn_cfg_set_rcq_size", rpma_conn_cfg_set_rcq_size(*cfg, RCQ_SIZE));
    if (status == STATUS_OK)
        status = check("rpma_conn_cfg_set_srq", rpma_conn_cfg_set_srq(*cfg, srq));
    return status;
}

int main(int argc, char **argv)
{
    const struct arguments args = arguments_parse(argc, argv, &program);
    const enum receive_queue queue = parse_receive_queue(&args);
    struct rpma_peer *peer = NULL;
    struct rpma_srq *srq = NULL;
    struct rpma_conn_cfg *cfg = NULL;

    int status = open_peer(&args, RPMA_UTIL_IBV_CONTEXT_LOCAL, &peer);
    if (status == STATUS_OK)
        status = create_srq(peer, queue, &srq);
    if (status == STATUS_OK)
        status = create_cfg(srq, queue, &cfg);
    if (status == STATUS_OK)
        status = ping_pong_serve(&args, peer, cfg, srq);

    status |= check("rpma_conn_cfg_delete", rpma_conn_cfg_delete(&cfg));
    status |= check("rpma_srq_delete", rpma_srq_delete(&srq));
    status |= check("rpma_peer_delete", rpma_peer_delete(&peer));
    return status;
}
