// SPDX-License-Identifier: BSD-3-Clause
#include <errno.h>

#include <fio.h>

#include "client.h"
#include "report.h"
#include "workspace_block.h"

enum {
    RESPONSE_TIMEOUT_MS = 60000, /* longer than the timeout of the connection manager */
    RETRY_MS = 500
};

/* One attempt: 1 established, 0 refused, or a negative errno. */
static int connect_once(struct thread_data *td, struct client *client, const struct rpma_conn_cfg *cfg)
{
    const struct endpoint *server = &client->session.endpoint;
    struct rpma_conn_req *request = NULL;
    struct rpma_conn *conn = NULL;
    enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
    int event_fd = -1;

    int ret = rpma_conn_req_new(client->session.peer, server->address, server->port, cfg, &request);
    if (ret == 0)
        ret = rpma_conn_req_connect(&request, NULL, &conn);
    if (ret == 0)
        ret = rpma_conn_get_event_fd(conn, &event_fd);
    if (ret) {
        ret = -report(td, EIO, "cannot connect to %s port %s: %s", server->address, server->port, reason(ret));
        (void)rpma_conn_delete(&conn);
        return ret;
    }

    ret = wait_for(td, event_fd, RESPONSE_TIMEOUT_MS);
    if (ret == 1 && rpma_conn_next_event(conn, &event) == 0 && event == RPMA_CONN_ESTABLISHED)
        return session_begin(td, &client->session, conn) == 0 ? 1 : -EIO;
    (void)rpma_conn_delete(&conn);
    if (ret == -EINTR || event == RPMA_CONN_REJECTED)
        return ret == -EINTR ? ret : 0;
    return -report(td, EHOSTUNREACH, "%s port %s: no response: %s", server->address, server->port,
            rpma_utils_conn_event_2str(event));
}

static int retry(struct thread_data *td, struct client *client, const struct rpma_conn_cfg *cfg)
{
    const struct engine_options *options = td->eo;
    const struct endpoint *server = &client->session.endpoint;
    const int64_t timeout_ms = (int64_t)options->connect_timeout * 1000;
    for (int64_t waited_ms = 0;; waited_ms += RETRY_MS) {
        int ret = connect_once(td, client, cfg);
        if (ret == 0 && waited_ms >= timeout_ms)
            return -report(td, ECONNREFUSED,
                    "%s port %s: connection refused for %u s (start the server, or correct serverip= or port=)",
                    server->address, server->port, options->connect_timeout);
        if (ret == 0)
            ret = wait_for(td, -1, RETRY_MS);
        if (ret == -EINTR)
            return -report(
                    td, EINTR, "stopped before %s port %s accepted the connection", server->address, server->port);
        if (ret)
            return ret > 0 ? 0 : ret;
    }
}

static int read_workspace(struct thread_data *td, struct client *client)
{
    const struct endpoint *server = &client->session.endpoint;
    struct rpma_conn_private_data data = {0};
    struct workspace_block block;
    int usage = 0;

    int ret = rpma_conn_get_private_data(client->session.conn, &data);
    if (ret == 0 && !workspace_block_read(data.ptr, data.len, &block))
        ret = RPMA_E_INVAL;
    if (ret == 0)
        ret = rpma_mr_remote_from_descriptor(block.descriptor, block.descriptor_size, &client->workspace);
    if (ret == 0)
        ret = rpma_mr_remote_get_size(client->workspace, &client->workspace_size);
    if (ret == 0)
        ret = rpma_mr_remote_get_flush_type(client->workspace, &usage);
    if (ret)
        return -report(td, EPROTO, "%s port %s: not a librpma server of fio: no description of a workspace",
                server->address, server->port);
    client->is_pmem = usage & RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT;
    client->has_direct_write = block.direct_write_to_pmem;
    client->max_messages = block.max_messages;
    return 0;
}

int client_connect(struct thread_data *td, struct client *client)
{
    struct rpma_conn_cfg *cfg = NULL;
    int ret = rpma_conn_cfg_new(&cfg);
    if (ret == 0)
        ret = client->kind->configure(client, cfg);
    ret = ret ? -report(td, EINVAL, "cannot set up iodepth=%u: %s", td->o.iodepth, reason(ret))
              : retry(td, client, cfg);
    (void)rpma_conn_cfg_delete(&cfg);
    return ret ? ret : read_workspace(td, client);
}
