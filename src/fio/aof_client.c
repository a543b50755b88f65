// SPDX-License-Identifier: BSD-3-Clause
/* Append-only file: the client writes at the end, and moves the pointer when the data is durable. mode=hw: the client
 * flushes and moves the pointer itself. mode=sw: it requests both from the server by message. */
#include <errno.h>

#include "append_request.h"
#include "client.h"
#include "engine.h"
#include "remote_flush.h"
#include "report.h"
#include "requests.h"

/* Returns the offset of the pointer, which follows the workspace that fio writes to. */
static uint64_t pointer_offset(const struct client *client)
{
    return client->workspace_size;
}

static int set_pointer_apart(struct thread_data *td, struct client *client)
{
    if (client->workspace_size <= POINTER_SIZE || client->workspace_size % POINTER_SIZE != 0)
        return -report(td, EPROTO,
                "the server's workspace of %zu bytes cannot end with the pointer (set its size= to a multiple of %d, "
                "at least %d)",
                client->workspace_size, POINTER_SIZE, 2 * POINTER_SIZE);
    client->workspace_size -= POINTER_SIZE;
    return 0;
}

static int configure_hw(const struct client *client, struct rpma_conn_cfg *cfg)
{
    const uint32_t size = client->depth + 3 * client->max_flushes;
    const int ret = rpma_conn_cfg_set_sq_size(cfg, size);
    return ret ? ret : rpma_conn_cfg_set_cq_size(cfg, size);
}

static int begin_hw(struct thread_data *td, struct client *client)
{
    const int ret = set_pointer_apart(td, client);
    return ret ? ret : remote_flush_begin(td, client, "mode=sw on both sides");
}

/* Each operation takes effect after the one before. The pointer's value is copied when it is posted. */
static int flush_hw(struct client *client, uint64_t offset, uint64_t length, uint64_t number)
{
    const uint64_t pointer = offset + length;
    int ret = remote_flush(client, offset, length, RPMA_F_COMPLETION_ON_ERROR, number);
    if (ret == 0)
        ret = rpma_atomic_write(client->session.conn, client->workspace, pointer_offset(client), (const char *)&pointer,
                RPMA_F_COMPLETION_ON_ERROR, (const void *)(uintptr_t)number);
    if (ret == 0)
        ret = remote_flush(client, pointer_offset(client), POINTER_SIZE, RPMA_F_COMPLETION_ALWAYS, number);
    return ret;
}

static int begin_sw(struct thread_data *td, struct client *client)
{
    const struct endpoint *server = &client->session.endpoint;
    if (client->max_messages == 0)
        return -report(td, EPROTO, "%s port %s: the server accepts no messages: not a librpma_aof_server with mode=sw",
                server->address, server->port);
    const int ret = set_pointer_apart(td, client);
    return ret ? ret : requests_begin(td, client);
}

static size_t write_request(
        const struct client *client, uint64_t offset, uint64_t length, uint64_t number, void *message)
{
    const struct append_request request = {
            .offset = offset,
            .length = length,
            .pointer_offset = length != 0 ? pointer_offset(client) : 0,
            .context = number,
    };
    return append_request_write(&request, message);
}

static int init(struct thread_data *td)
{
    static const struct client_kind hw = {
            .only_appends = true,
            .configure = configure_hw,
            .begin = begin_hw,
            .flush = flush_hw,
    };
    static const struct client_kind sw = {
            .only_appends = true,
            .configure = requests_configure,
            .begin = begin_sw,
            .flush = requests_flush,
            .write_request = write_request,
            .take_message = requests_take_message,
            .shut_down = requests_shut_down,
            .end = requests_end,
    };
    const struct engine_options *options = td->eo;
    return client_init(td, options->mode == AOF_MODE_HW ? &hw : &sw);
}

struct ioengine_ops ioengine = {
        .name = "librpma_aof_client",
        .init = init,
        CLIENT_FUNCTIONS,
};
