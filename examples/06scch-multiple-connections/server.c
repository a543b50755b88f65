// SPDX-License-Identifier: BSD-3-Clause
#include <stdbool.h>

#include <librpma.h>

#include "names.h"
#include "status.h"

static int share_channel(struct rpma_conn_cfg *cfg)
{
    return check("rpma_conn_cfg_set_compl_channel", rpma_conn_cfg_set_compl_channel(cfg, true));
}

int main(int argc, char **argv)
{
    return names_server(argc, argv, share_channel);
}
