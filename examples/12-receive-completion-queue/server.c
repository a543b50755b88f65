// SPDX-License-Identifier: BSD-3-Clause
#include <librpma.h>

#include "arguments.h"
#include "connection.h"
#include "ping_pong.h"
#include "status.h"

enum {
    RCQ_SIZE = 10
};

static const struct program program = {
        .purpose = "Answers every number of one client with the next one, until the client says that this was all.",
        .operands = "",
        .operands_help = "",
        .retry_s = RETRY_NOT_OFFERED,
};

int main(int argc, char **argv)
{
    const struct arguments args = arguments_parse(argc, argv, &program);
    struct rpma_peer *peer = NULL;
    struct rpma_conn_cfg *cfg = NULL;

    int status = open_peer(&args, RPMA_UTIL_IBV_CONTEXT_LOCAL, &peer);
    if (status == STATUS_OK)
        status = check("rpma_conn_cfg_new", rpma_conn_cfg_new(&cfg));
    if (status == STATUS_OK)
        status = check("rpma_conn_cfg_set_rcq_size", rpma_conn_cfg_set_rcq_size(cfg, RCQ_SIZE));
    if (status == STATUS_OK)
        status = ping_pong_serve(&args, peer, cfg, NULL);

    status |= check("rpma_conn_cfg_delete", rpma_conn_cfg_delete(&cfg));
    status |= check("rpma_peer_delete", rpma_peer_delete(&peer));
    return status;
}
