// SPDX-License-Identifier: BSD-3-Clause
#include <stdbool.h>

#include <librpma.h>

#include "arguments.h"
#include "connection.h"
#include "names.h"
#include "status.h"

static const struct program program = {
        .purpose = "Reads the names of many clients at a time, until no other has come for --timeout seconds.",
        .operands = "",
        .operands_help = "",
        .timeout_s = NAMES_TIMEOUT_S,
        .retry_s = RETRY_NOT_OFFERED,
        .has_many_clients = true,
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
        status = check("rpma_conn_cfg_set_compl_channel", rpma_conn_cfg_set_compl_channel(cfg, true));
    if (status == STATUS_OK)
        status = names_collect(&args, peer, cfg);

    status |= check("rpma_conn_cfg_delete", rpma_conn_cfg_delete(&cfg));
    status |= check("rpma_peer_delete", rpma_peer_delete(&peer));
    return status;
}
