// SPDX-License-Identifier: BSD-3-Clause
#include "remote_flush.h"

#include <errno.h>

#include "report.h"

static int expect_direct_write(struct thread_data *td, struct client *client)
{
    struct rpma_peer_cfg *server = NULL;
    int ret = rpma_peer_cfg_new(&server);
    if (ret == 0)
        ret = rpma_peer_cfg_set_direct_write_to_pmem(server, true);
    if (ret == 0)
        ret = rpma_conn_apply_remote_peer_cfg(client->session.conn, server);
    (void)rpma_peer_cfg_delete(&server);
    return ret ? -report(td, EIO, "cannot set up flushes to persistence: %s", reason(ret)) : 0;
}

int remote_flush_begin(struct thread_data *td, struct client *client, const char *instead)
{
    if (!client->is_pmem) {
        if (td_write(td) && td->subjob_number == 0)
            print_line(td, "the server's workspace is volatile memory: writes are flushed to visibility only");
        return 0;
    }
    if (td_write(td) && !client->has_direct_write)
        return -report(td, ENOTSUP,
                "the server does not declare direct write to PMem (use %s, or set direct_write_to_pmem=1 on the server "
                "if its platform supports it)",
                instead);
    return expect_direct_write(td, client);
}

int remote_flush(const struct client *client, uint64_t offset, uint64_t length, int flags, uint64_t number)
{
    return rpma_flush(client->session.conn, client->workspace, offset, length,
            client->is_pmem ? RPMA_FLUSH_TYPE_PERSISTENT : RPMA_FLUSH_TYPE_VISIBILITY, flags,
            (const void *)(uintptr_t)number);
}
