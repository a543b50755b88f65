// SPDX-License-Identifier: BSD-3-Clause
#include <librpma.h>

#include "arguments.h"
#include "connection.h"
#include "ping_pong.h"
#include "status.h"

static const struct program program = {
        .purpose = "Plays ping-pong with a server that has several clients at a time and one receive queue for all of "
                   "them.",
        .operands = PING_PONG_OPERANDS,
        .operands_help = PING_PONG_SEED_HELP PING_PONG_NUMBERS_HELP PING_PONG_SLEEP_HELP,
        .min_operands = PING_PONG_MIN_OPERANDS,
        .max_operands = PING_PONG_MAX_OPERANDS,
        .timeout_s = 30,
};

int main(int argc, char **argv)
{
    const struct arguments args = arguments_parse(argc, argv, &program);
    const struct ping_pong_plan plan = ping_pong_parse(&args, PING_PONG_SERVER_CLOSES);
    struct rpma_peer *peer = NULL;

    int status = open_peer(&args, RPMA_UTIL_IBV_CONTEXT_REMOTE, &peer);
    if (status == STATUS_OK)
        status = ping_pong_play(&args, &plan, peer, NULL);

    status |= check("rpma_peer_delete", rpma_peer_delete(&peer));
    return status;
}
