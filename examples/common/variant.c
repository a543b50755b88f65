// SPDX-License-Identifier: BSD-3-Clause
#include "variant.h"

#include <stddef.h>

#include "connection.h"
#include "status.h"

int variant_run(const struct arguments *args, enum rpma_util_ibv_context_type side, configure_conn *configure,
        variant_body *body, const void *context)
{
    struct rpma_peer *peer = NULL;
    struct rpma_conn_cfg *cfg = NULL;

    int status = open_peer(args, side, &peer);
    if (status == STATUS_OK && configure)
        status = check("rpma_conn_cfg_new", rpma_conn_cfg_new(&cfg));
    if (status == STATUS_OK && configure)
        status = configure(cfg);
    if (status == STATUS_OK)
        status = body(args, peer, cfg, context);

    status |= check("rpma_conn_cfg_delete", rpma_conn_cfg_delete(&cfg));
    status |= check("rpma_peer_delete", rpma_peer_delete(&peer));
    return status;
}
