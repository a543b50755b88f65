// SPDX-License-Identifier: BSD-3-Clause
#include <stdbool.h>

#include <librpma.h>

#include "ping_pong.h"
#include "status.h"

enum {
    RCQ_SIZE = 10
};

static int share_channel(struct rpma_conn_cfg *cfg)
{
    const int status = check("rpma_conn_cfg_set_rcq_size", rpma_conn_cfg_set_rcq_size(cfg, RCQ_SIZE));
    return status ? status : check("rpma_conn_cfg_set_compl_channel", rpma_conn_cfg_set_compl_channel(cfg, true));
}

int main(int argc, char **argv)
{
    return ping_pong_server(argc, argv, share_channel);
}
