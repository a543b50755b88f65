// SPDX-License-Identifier: BSD-3-Clause
#include <librpma.h>

#include "ping_pong.h"
#include "status.h"

enum {
    RCQ_SIZE = 10
};

static int separate_receives(struct rpma_conn_cfg *cfg)
{
    return check("rpma_conn_cfg_set_rcq_size", rpma_conn_cfg_set_rcq_size(cfg, RCQ_SIZE));
}

int main(int argc, char **argv)
{
    return ping_pong_client(argc, argv, PING_PONG_END_IS_A_ROUND, separate_receives);
}
