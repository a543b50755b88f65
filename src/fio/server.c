// SPDX-License-Identifier: BSD-3-Clause
/* Functions of a server. Its one file is the workspace, which is open while a client is connected. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <fio.h>

#include "report.h"
#include "server.h"
#include "workspace_block.h"

enum {
    ESTABLISH_TIMEOUT_MS = 60000 /* longer than the timeout of the connection manager */
};

int server_init(struct thread_data *td, const struct server_kind *kind)
{
    if (td->o.nr_files != 1)
        return report(td, EINVAL, "filename= must name one workspace, and nrfiles= must be 1");
    struct server *server = calloc(1, sizeof(*server));
    if (!server)
        return report(td, ENOMEM, "out of memory");
    server->kind = kind;
    server->max_messages = kind->max_messages ? kind->max_messages(td) : 0;
    server->session.event_fd = -1;
    td->io_ops_data = server;

    int ret = 0;
    if (server->max_messages > UINT16_MAX)
        ret = -report(td, EINVAL, "iodepth=%u is above %d", server->max_messages, UINT16_MAX);
    if (ret == 0)
        ret = session_open(td, &server->session, RPMA_UTIL_IBV_CONTEXT_LOCAL);
    if (ret)
        server_cleanup(td);
    return -ret;
}

int server_get_file_size(struct thread_data *td, struct fio_file *file)
{
    if (td->o.size == 0)
        return report(td, EINVAL, "size= is missing (the size of the workspace)");
    file->real_file_size = td->o.size;
    fio_file_set_size_known(file);
    return 0;
}

static int advise(struct thread_data *td, struct server *server)
{
    if (!server->memory.is_file)
        return 0;
    const int ret = rpma_mr_advise(
            server->workspace, 0, server->memory.size, IBV_ADVISE_MR_ADVICE_PREFETCH_WRITE, IBV_ADVISE_MR_FLAG_FLUSH);
    if (ret == RPMA_E_INVAL)
        return -report(td, EINVAL, "the device rejects advice about the workspace: %s", rpma_err_2str(ret));
    if (ret)
        dprint(FD_NET, "the workspace is not prefetched: %s\n", rpma_err_2str(ret));
    return 0;
}

static int register_workspace(struct thread_data *td, struct server *server)
{
    const int usage =
            RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_WRITE_DST |
            (server->memory.is_pmem ? RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT : RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY);
    const int ret =
            rpma_mr_reg(server->session.peer, server->memory.base, server->memory.size, usage, &server->workspace);
    if (ret)
        return -report(td, EIO, "cannot register size=%zu bytes: %s", server->memory.size, reason(ret));
    return advise(td, server);
}

static int describe(struct thread_data *td, const struct server *server, struct workspace_block *block)
{
    const struct engine_options *options = td->eo;
    size_t size = 0;
    *block = (struct workspace_block){
            .max_messages = (uint16_t)server->max_messages,
            .direct_write_to_pmem = options->direct_write_to_pmem != 0,
    };
    int ret = rpma_mr_get_descriptor_size(server->workspace, &size);
    if (ret == 0 && size > MAX_DESCRIPTOR_SIZE)
        ret = RPMA_E_NOSUPP;
    if (ret == 0)
        ret = rpma_mr_get_descriptor(server->workspace, block->descriptor);
    block->descriptor_size = (uint8_t)size;
    return ret ? -report(td, EIO, "cannot get the descriptor of the workspace: %s", reason(ret)) : 0;
}

static int await_request(
        struct thread_data *td, struct server *server, const struct rpma_conn_cfg *cfg, struct rpma_conn_req **request)
{
    const struct engine_options *options = td->eo;
    const struct endpoint *here = &server->session.endpoint;
    int fd = -1;
    int ret = rpma_ep_get_fd(server->endpoint, &fd);
    if (ret)
        return -report(td, EIO, "cannot wait for a client: %s", reason(ret));
    ret = wait_for(td, fd, options->idle_timeout ? (int64_t)options->idle_timeout * 1000 : INT64_MAX / 2);
    if (ret == 0)
        return -report(td, ETIMEDOUT, "%s port %s: no client connected within idle_timeout=%u s", here->address,
                here->port, options->idle_timeout);
    if (ret < 0)
        return -report(td, -ret, "stopped before a client connected to %s port %s", here->address, here->port);
    ret = rpma_ep_next_conn_req(server->endpoint, cfg, request);
    return ret ? -report(td, EIO, "cannot get a connection request: %s", reason(ret)) : 0;
}

static int accept_client(struct thread_data *td, struct server *server, struct rpma_conn_req *request)
{
    struct workspace_block block;
    const struct rpma_conn_private_data data = {.ptr = &block, .len = sizeof(block)};
    struct rpma_conn *conn = NULL;
    enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
    int fd = -1;

    int ret = describe(td, server, &block);
    if (ret == 0 && server->kind->on_connect)
        ret = server->kind->on_connect(td, server, request);
    if (ret) {
        (void)rpma_conn_req_delete(&request);
        return ret;
    }
    ret = rpma_conn_req_connect(&request, &data, &conn);
    if (ret == 0)
        ret = rpma_conn_get_event_fd(conn, &fd);
    if (ret == 0 && wait_for(td, fd, ESTABLISH_TIMEOUT_MS) == 1)
        ret = rpma_conn_next_event(conn, &event);
    if (ret == 0 && event == RPMA_CONN_ESTABLISHED)
        return session_begin(td, &server->session, conn);
    ret = -report(
            td, ECONNABORTED, "connection not established: %s", ret ? reason(ret) : rpma_utils_conn_event_2str(event));
    (void)rpma_conn_delete(&conn);
    return ret;
}

static int listen_and_accept(struct thread_data *td, struct server *server, const struct rpma_conn_cfg *cfg)
{
    const struct endpoint *here = &server->session.endpoint;
    struct rpma_conn_req *request = NULL;
    int ret = rpma_ep_listen(server->session.peer, here->address, here->port, &server->endpoint);
    if (ret)
        return -report(td, EADDRINUSE, "cannot listen on %s port %s: %s", here->address, here->port, reason(ret));
    print_line(td, "listening on %s port %s", here->address, here->port);
    ret = await_request(td, server, cfg, &request);
    if (ret == 0)
        ret = accept_client(td, server, request);
    (void)rpma_ep_shutdown(&server->endpoint);
    return ret;
}

static void release(struct server *server)
{
    session_end(&server->session);
    if (server->kind->end)
        server->kind->end(server);
    (void)rpma_mr_dereg(&server->workspace);
    memory_close(&server->memory);
}

int server_open_file(struct thread_data *td, struct fio_file *file)
{
    struct server *server = td->io_ops_data;
    struct rpma_conn_cfg *cfg = NULL;
    int ret = memory_open(td, file->file_name, td->o.size, &server->memory);
    if (ret == 0)
        ret = register_workspace(td, server);
    if (ret == 0 && (rpma_conn_cfg_new(&cfg) != 0 || (server->kind->configure && server->kind->configure(server, cfg))))
        ret = -report(td, EINVAL, "cannot set up iodepth=%u", td->o.iodepth);
    if (ret == 0)
        ret = listen_and_accept(td, server, cfg);
    (void)rpma_conn_cfg_delete(&cfg);
    if (ret)
        release(server);
    return -ret;
}

int server_watch(struct thread_data *td, struct server *server)
{
    (void)td;
    const int ret = session_watch(&server->session);
    return ret ? ret : server->session.is_closed;
}

enum fio_q_status server_queue(struct thread_data *td, struct io_u *io_u)
{
    struct server *server = td->io_ops_data;
    int ret = 0;
    while (ret == 0 && !td->terminate)
        ret = server->kind->serve(td, server);
    if (ret < 0)
        io_u->error = (unsigned int)-ret;
    td->done = 1;
    return FIO_Q_COMPLETED;
}

int server_getevents(struct thread_data *td, unsigned int min, unsigned int max, const struct timespec *timeout)
{
    (void)td;
    (void)min;
    (void)max;
    (void)timeout;
    return 0;
}

struct io_u *server_event(struct thread_data *td, int event)
{
    (void)td;
    (void)event;
    return NULL;
}

int server_close_file(struct thread_data *td, struct fio_file *file)
{
    (void)file;
    release(td->io_ops_data);
    return 0;
}

void server_cleanup(struct thread_data *td)
{
    struct server *server = td->io_ops_data;
    if (!server)
        return;
    release(server);
    session_close(&server->session);
    free(server);
    td->io_ops_data = NULL;
}
