// SPDX-License-Identifier: BSD-3-Clause
#include <stdbool.h>

#include <librpma.h>

#include "arguments.h"
#include "connection.h"
#include "gpspm.h"
#include "hello.h"
#include "status.h"

static const struct program program = {
        .purpose = "Lets one client write a text to this server's persistent memory, and persists it when asked to.",
        .operands = "[<pmem-path>]",
        .operands_help = HELLO_SERVER_OPERANDS_HELP,
        .max_operands = HELLO_SERVER_MAX_OPERANDS,
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
        status = check("rpma_conn_cfg_set_rcq_size", rpma_conn_cfg_set_rcq_size(cfg, GPSPM_RCQ_SIZE));
    if (status == STATUS_OK)
        status = check("rpma_conn_cfg_set_compl_channel", rpma_conn_cfg_set_compl_channel(cfg, true));
    if (status == STATUS_OK)
        status = gpspm_serve(&args, peer, cfg);

    status |= check("rpma_conn_cfg_delete", rpma_conn_cfg_delete(&cfg));
    status |= check("rpma_peer_delete", rpma_peer_delete(&peer));
    return status;
}
