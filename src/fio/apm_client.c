// SPDX-License-Identifier: BSD-3-Clause
/* Appliance Persistency Method: the client writes and flushes, the server's CPU does nothing. */
#include <errno.h>

#include "client.h"
#include "engine.h"
#include "report.h"

static int configure(const struct client *client, struct rpma_conn_cfg *cfg)
{
    const uint32_t size = client->depth + client->max_flushes;
    const int ret = rpma_conn_cfg_set_sq_size(cfg, size);
    return ret ? ret : rpma_conn_cfg_set_cq_size(cfg, size);
}

static int expect_direct_write(struct thread_data *td, struct client *client)
{
    struct rpma_peer_cfg *server = NULL;
    int ret = rpma_peer_cfg_new(&server);
    if (ret == 0)
        ret = rpma_peer_cfg_set_direct_write_to_pmem(server, true);
    if (ret == 0)
        ret = rpma_conn_apply_remote_peer_cfg(client->session.conn, server);
    (void)rpma_peer_cfg_delete(&server);
    return ret ? -report(td, EIO, "flushing to persistence cannot be set up: %s", reason(ret)) : 0;
}

static int begin(struct thread_data *td, struct client *client)
{
    if (!client->is_pmem) {
        if (td_write(td) && td->subjob_number == 0)
            note(td, "the server's workspace is volatile memory: writes are flushed to visibility only");
        return 0;
    }
    if (td_write(td) && !client->has_direct_write)
        return -report(td, ENOTSUP,
                "the server's PMem is not written directly: use librpma_gpspm_client and librpma_gpspm_server, or set "
                "direct_write_to_pmem=1 on the server if its platform does");
    return expect_direct_write(td, client);
}

static int flush(struct client *client, uint64_t offset, uint64_t length, uint64_t number)
{
    return rpma_flush(client->session.conn, client->workspace, offset, length,
            client->is_pmem ? RPMA_FLUSH_TYPE_PERSISTENT : RPMA_FLUSH_TYPE_VISIBILITY, RPMA_F_COMPLETION_ALWAYS,
            (const void *)(uintptr_t)number);
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
