// SPDX-License-Identifier: BSD-3-Clause
/* I/O of a client. fio queues I/O units, commits them and reaps events. Operations are numbered in posting order and
 * complete in that order, so a completion with number n covers all operations up to n. */
#include <errno.h>
#include <string.h>

#include <fio.h>

#include "client.h"
#include "report.h"

enum {
    FINAL_TIMEOUT_MS = 10000 /* wait for operations in flight when the job ends */
};

struct unflushed {
    uint64_t offset;
    uint64_t length;
};

static void *context_of(uint64_t number)
{
    return (void *)(uintptr_t)number;
}

static void give_back(struct client *client, struct io_u *io_u, int error)
{
    io_u->error = (unsigned int)error;
    client->complete[client->complete_count++] = io_u;
}

static void complete(struct client *client)
{
    for (; client->oldest < client->next; ++client->oldest) {
        const struct operation *operation = &client->posted[client->oldest % client->depth];
        const bool is_read = operation->io_u->ddir == DDIR_READ;
        if (client->oldest >= client->flushed && !(is_read && client->oldest < client->executed))
            break;
        client->flushes -= operation->is_flushed;
        give_back(client, operation->io_u, 0);
    }
}

/* Marks the connection as failed: outstanding and later operations return the error. */
static void break_off(struct client *client, int error)
{
    client->is_broken = true;
    for (; client->oldest < client->next; ++client->oldest)
        give_back(client, client->posted[client->oldest % client->depth].io_u, error);
    for (unsigned int i = 0; i < client->queued_count; ++i)
        give_back(client, client->queued[i], error);
    client->queued_count = 0;
    client->flushes = 0;
}

/* Frees the entries of the reported completions: fio has read them and can queue the units again. */
static void forget_reported(struct client *client)
{
    client->complete_count -= client->reported;
    memmove(client->complete, client->complete + client->reported, client->complete_count * sizeof(struct io_u *));
    client->reported = 0;
}

static int take(struct thread_data *td, struct client *client, const struct ibv_wc *wc)
{
    if (wc->status != IBV_WC_SUCCESS)
        return -report(td, EIO, "an operation on the server's workspace failed: %s", ibv_wc_status_str(wc->status));
    int ret = 0;
    if (wc->opcode == IBV_WC_SEND || wc->opcode == IBV_WC_RECV) {
        ret = client->kind->take_message(client, wc);
    } else {
        client->executed = wc->wr_id + 1;
        if (!client->kind->take_message)
            client->flushed = client->executed;
    }
    complete(client);
    return ret ? -report(td, -ret, "unexpected response of the server") : 0;
}

static int take_ready(struct thread_data *td, struct client *client, unsigned int max)
{
    struct ibv_wc wc;
    int ret = 1;
    while (ret == 1 && client->complete_count < max) {
        ret = session_poll(&client->session, &wc);
        if (ret == 1 && take(td, client, &wc) != 0)
            return -EIO;
    }
    return ret < 0 ? -report(td, -ret, "cannot poll completions: %s", strerror(-ret)) : 0;
}

int client_wait(struct thread_data *td, struct client *client)
{
    struct ibv_wc wc;
    for (;;) {
        const int ret = session_next_completion(&client->session, &wc);
        if (ret > 0)
            return take(td, client, &wc);
        if (ret == -ECONNRESET && client->oldest == client->next)
            return 0;
        if (ret < 0)
            return -report(td, -ret, "the server disconnected before the job was done: %s", strerror(-ret));
        if (td->terminate && mtime_since_now(&td->terminate_time) > FINAL_TIMEOUT_MS)
            return -report(td, ETIMEDOUT, "no response of the server for %d s", FINAL_TIMEOUT_MS / 1000);
    }
}

static int flush(struct thread_data *td, struct client *client, struct unflushed *range)
{
    int ret = 0;
    while (ret == 0 && client->flushes == client->max_flushes)
        ret = client_wait(td, client);
    if (ret)
        return ret;
    const uint64_t number = client->next - 1;
    client->posted[number % client->depth].is_flushed = true;
    ++client->flushes;
    ret = client->kind->flush(client, range->offset, range->length, number);
    *range = (struct unflushed){0};
    return ret ? -report(td, EIO, "cannot post a flush: %s", reason(ret)) : 0;
}

/* Returns whether the flush of the writes before next can cover next, too. */
static bool continues(const struct client *client, const struct unflushed *range, const struct io_u *next)
{
    return next && !client->flushes_each && next->ddir == DDIR_WRITE && next->offset == range->offset + range->length;
}

/* Posts one I/O unit; more may follow in the same batch. */
static int post(struct thread_data *td, struct client *client, struct io_u *io_u, const struct io_u *following,
        struct unflushed *range)
{
    const uint64_t number = client->next++;
    const size_t local = (size_t)((char *)io_u->xfer_buf - client->first_buffer);
    client->posted[number % client->depth] = (struct operation){.io_u = io_u};

    int ret = 0;
    if (io_u->ddir == DDIR_READ) {
        const bool is_last = !following || following->ddir != DDIR_READ;
        ret = rpma_read(client->session.conn, client->buffers, local, client->workspace, io_u->offset,
                io_u->xfer_buflen, is_last ? RPMA_F_COMPLETION_ALWAYS : RPMA_F_COMPLETION_ON_ERROR, context_of(number));
    } else {
        if (range->length == 0)
            range->offset = io_u->offset;
        range->length += io_u->xfer_buflen;
        ret = rpma_write(client->session.conn, client->workspace, io_u->offset, client->buffers, local,
                io_u->xfer_buflen, RPMA_F_COMPLETION_ON_ERROR, context_of(number));
    }
    if (ret)
        return -report(td, EIO, "cannot post an operation on %llu bytes at offset %llu of %zu: %s", io_u->xfer_buflen,
                io_u->offset, client->workspace_size, reason(ret));
    return range->length != 0 && !continues(client, range, following) ? flush(td, client, range) : 0;
}

static void stamp(struct thread_data *td, struct io_u *io_u)
{
    if (fio_fill_issue_time(td))
        fio_gettime(&io_u->issue_time, NULL);
}

static int post_all(struct thread_data *td, struct client *client)
{
    struct unflushed range = {0};
    unsigned int count = 0;
    int ret = 0;
    while (ret == 0 && count < client->queued_count) {
        struct io_u *io_u = client->queued[count++];
        stamp(td, io_u);
        ret = post(td, client, io_u, count < client->queued_count ? client->queued[count] : NULL, &range);
        if (ret == 0 && !td->o.sync_io)
            io_u_queued(td, io_u);
    }
    client->queued_count -= count;
    memmove(client->queued, client->queued + count, client->queued_count * sizeof(struct io_u *));
    return ret;
}

static enum fio_q_status queue_and_wait(struct thread_data *td, struct client *client, struct io_u *io_u)
{
    client->queued[client->queued_count++] = io_u;
    int ret = post_all(td, client);
    while (ret == 0 && client->oldest < client->next)
        ret = client_wait(td, client);
    if (ret)
        break_off(client, -ret);
    client->complete_count = 0;
    return FIO_Q_COMPLETED;
}

enum fio_q_status client_queue(struct thread_data *td, struct io_u *io_u)
{
    struct client *client = td->io_ops_data;
    if (client->is_broken) {
        io_u->error = ENOTCONN;
        return FIO_Q_COMPLETED;
    }
    if (ddir_sync(io_u->ddir)) /* each write is flushed anyway */
        return FIO_Q_COMPLETED;
    if (io_u->ddir != DDIR_READ && io_u->ddir != DDIR_WRITE) {
        io_u->error = EINVAL;
        return FIO_Q_COMPLETED;
    }
    if (td->o.sync_io)
        return queue_and_wait(td, client, io_u);
    if (client->queued_count == client->depth)
        return FIO_Q_BUSY;
    client->queued[client->queued_count++] = io_u;
    return FIO_Q_QUEUED;
}

int client_commit(struct thread_data *td)
{
    struct client *client = td->io_ops_data;
    forget_reported(client);
    const int ret = post_all(td, client);
    if (ret)
        break_off(client, -ret);
    return 0;
}

int client_getevents(struct thread_data *td, unsigned int min, unsigned int max, const struct timespec *timeout)
{
    (void)timeout;
    struct client *client = td->io_ops_data;
    forget_reported(client);
    int ret = client->is_broken ? 0 : take_ready(td, client, max);
    while (ret == 0 && client->complete_count < min && client->oldest < client->next)
        ret = client_wait(td, client);
    if (ret)
        break_off(client, -ret);
    client->reported = client->complete_count < max ? client->complete_count : max;
    return (int)client->reported;
}

struct io_u *client_event(struct thread_data *td, int event)
{
    const struct client *client = td->io_ops_data;
    return client->complete[event];
}
