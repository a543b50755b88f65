// SPDX-License-Identifier: BSD-3-Clause
/* Appliance Persistency Method: the client writes and flushes; the server's CPU is idle. */
#include "client.h"
#include "engine.h"
#include "remote_flush.h"

static int configure(const struct client *client, struct rpma_conn_cfg *cfg)
{
    const uint32_t size = client->depth + client->max_flushes;
    const int ret = rpma_conn_cfg_set_sq_size(cfg, size);
    return ret ? ret : rpma_conn_cfg_set_cq_size(cfg, size);
}

static int begin(struct thread_data *td, struct client *client)
{
    return remote_flush_begin(td, client, "librpma_gpspm_client and librpma_gpspm_server");
}

static int flush(struct client *client, uint64_t offset, uint64_t length, uint64_t number)
{
    return remote_flush(client, offset, length, RPMA_F_COMPLETION_ALWAYS, number);
}

static int init(struct thread_data *td)
{
    static const struct client_kind kind = {
            .can_read = true,
            .configure = configure,
            .begin = begin,
            .flush = flush,
    };
    return client_init(td, &kind);
}

struct ioengine_ops ioengine = {
        .name = "librpma_apm_client",
        .init = init,
        CLIENT_FUNCTIONS,
};
