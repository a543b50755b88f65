// SPDX-License-Identifier: BSD-3-Clause
/* Functions of a client that fio calls before and after the I/O. */
#include <errno.h>
#include <stdlib.h>

#include <fio.h>

#include "client.h"
#include "report.h"

static int check_workload(struct thread_data *td, const struct client_kind *kind)
{
    if (td_trim(td))
        return -report(td, EINVAL, "rw= must not trim: a workspace cannot discard data");
    if (td_read(td) && !kind->can_read)
        return -report(td, EINVAL, "rw= must be %s (librpma_apm_client can read)",
                kind->only_appends ? "write" : "write or randwrite");
    if (kind->only_appends && (td_random(td) || td->o.ddir_seq_add != 0))
        return -report(td, EINVAL, "rw= must be write: an append-only file is written without gaps");
    return 0;
}

static struct client *new_client(struct thread_data *td, const struct client_kind *kind)
{
    struct client *client = calloc(1, sizeof(*client));
    if (!client)
        return NULL;
    const bool is_mixed = td_random(td) || td_rw(td);
    client->kind = kind;
    client->session.event_fd = -1;
    client->flushes_each = td_random(td);
    client->depth = td->o.sync_io ? 1 : td->o.iodepth;
    client->max_flushes = client->depth;
    if (!is_mixed && td->o.iodepth_batch > 1 && client->depth > 1)
        client->max_flushes = (client->depth + td->o.iodepth_batch - 1) / td->o.iodepth_batch;
    client->queued = calloc(client->depth, sizeof(struct io_u *));
    client->posted = calloc(client->depth, sizeof(struct operation));
    client->complete = calloc(client->depth, sizeof(struct io_u *));
    td->io_ops_data = client;
    return client->queued && client->posted && client->complete ? client : NULL;
}

int client_init(struct thread_data *td, const struct client_kind *kind)
{
    int ret = check_workload(td, kind);
    if (ret)
        return -ret;
    struct client *client = new_client(td, kind);
    if (!client) {
        client_cleanup(td);
        return report(td, ENOMEM, "out of memory for iodepth=%u", td->o.iodepth);
    }
    td->o.mem_align = (unsigned int)page_size;

    ret = session_open(td, &client->session, RPMA_UTIL_IBV_CONTEXT_REMOTE);
    if (ret == 0)
        ret = client_connect(td, client);
    if (ret == 0)
        ret = kind->begin(td, client);
    if (ret)
        client_cleanup(td);
    return -ret;
}

int client_post_init(struct thread_data *td)
{
    struct client *client = td->io_ops_data;
    const size_t size = (size_t)td_max_bs(td) * td->o.iodepth;
    client->first_buffer = td->io_u_all.io_us[0]->buf;
    const int ret = rpma_mr_reg(client->session.peer, client->first_buffer, size,
            RPMA_MR_USAGE_READ_SRC | RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_WRITE_DST |
                    RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT,
            &client->buffers);
    if (ret)
        return report(
                td, EIO, "cannot register %zu bytes of buffers (blocksize= times iodepth=): %s", size, reason(ret));
    return 0;
}

int client_get_file_size(struct thread_data *td, struct fio_file *file)
{
    const struct client *client = td->io_ops_data;
    if (!client)
        return report(
                td, EINVAL, "create_serialize=0 is missing: the size of the workspace is unknown before connecting");
    file->real_file_size = client->workspace_size;
    fio_file_set_size_known(file);
    return 0;
}

int client_open_file(struct thread_data *td, struct fio_file *file)
{
    (void)td;
    (void)file;
    return 0;
}

int client_close_file(struct thread_data *td, struct fio_file *file)
{
    (void)td;
    (void)file;
    return 0;
}

void client_cleanup(struct thread_data *td)
{
    struct client *client = td->io_ops_data;
    if (!client)
        return;
    if (client->session.cq && !client->is_broken && client->kind->shut_down)
        client->kind->shut_down(td, client);
    session_end(&client->session);
    if (client->kind->end)
        client->kind->end(client);
    (void)rpma_mr_dereg(&client->buffers);
    (void)rpma_mr_remote_delete(&client->workspace);
    session_close(&client->session);
    free(client->queued);
    free(client->posted);
    free(client->complete);
    free(client);
    td->io_ops_data = NULL;
}
