// SPDX-License-Identifier: BSD-3-Clause
#include <librpma.h>

#include "gpspm.h"
#include "status.h"

enum {
    RCQ_SIZE = 1
};

static int separate_receives(struct rpma_conn_cfg *cfg)
{
    return check("rpma_conn_cfg_set_rcq_size", rpma_conn_cfg_set_rcq_size(cfg, RCQ_SIZE));
}

int main(int argc, char **argv)
{
    return gpspm_client(argc, argv, separate_receives);
}
