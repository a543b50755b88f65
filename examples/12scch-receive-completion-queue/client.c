// SPDX-License-Identifier: BSD-3-Clause
#include <stdbool.h>

#include <librpma.h>

#include "arguments.h"
#include "connection.h"
#include "ping_pong.h"
#include "status.h"

enum {
    RCQ_SIZE = 10
};

static const struct program program = {
        .purpose = "Sends a number, which the server answers with the next one, and goes on from there.",
        .operands = PING_PONG_OPERANDS,
        .operands_help = PING_PONG_SEED_HELP PING_PONG_ROUNDS_HELP PING_PONG_SLEEP_HELP,
        .min_operands = PING_PONG_MIN_OPERANDS,
        .max_operands = PING_PONG_MAX_OPERANDS,
        .timeout_s = 30,
};

int main(int argc, char **argv)
{
    const struct arguments args = arguments_parse(argc, argv, &program);
    const struct ping_pong_plan plan = ping_pong_parse(&args, PING_PONG_END_IS_A_ROUND);
    struct rpma_peer *peer = NULL;
    struct rpma_conn_cfg *cfg = NULL;

    int status = open_peer(&args, RPMA_UTIL_IBV_CONTEXT_REMOTE, &peer);
    if (status == STATUS_OK)
        status = check("rpma_conn_cfg_new", rpma_conn_cfg_new(&cfg));
    if (status == STATUS_OK)
        status = check("rpma_conn_cfg_set_rcq_size", rpma_conn_cfg_set_rcq_size(cfg, RCQ_SIZE));
    if (status == STATUS_OK)
        status = check("rpma_conn_cfg_set_compl_channel", rpma_conn_cfg_set_compl_channel(cfg, true));
    if (status == STATUS_OK)
        status = ping_pong_play(&args, &plan, peer, cfg);

    status |= check("rpma_conn_cfg_delete", rpma_conn_cfg_delete(&cfg));
    status |= check("rpma_peer_delete", rpma_peer_delete(&peer));
    return status;
}
