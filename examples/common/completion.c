// SPDX-License-Identifier: BSD-3-Clause
#include "completion.h"

#include <err.h>
#include <stdint.h>
#include <string.h>

#include "status.h"
#include "wait.h"

enum {
    MAX_QUEUES = 3
};

/* Descriptors with events of a connection: its completion queues and its connection events. */
struct sources {
    struct rpma_cq *cqs[MAX_QUEUES];
    nfds_t cq_count;
    struct pollfd fds[MAX_QUEUES + 1]; /* one for each queue, then one for connection events */
};

static int add_queue(struct sources *sources, struct rpma_cq *cq)
{
    if (!cq)
        return STATUS_OK;

    struct pollfd *fd = &sources->fds[sources->cq_count];
    sources->cqs[sources->cq_count++] = cq;
    fd->events = POLLIN;
    return check("rpma_cq_get_fd", rpma_cq_get_fd(cq, &fd->fd));
}

static int find_sources(struct rpma_conn *conn, const struct rpma_srq *srq, struct sources *sources)
{
    struct rpma_cq *cq = NULL;
    struct rpma_cq *rcq = NULL;
    struct rpma_cq *srq_rcq = NULL;

    int status = check("rpma_conn_get_cq", rpma_conn_get_cq(conn, &cq));
    if (status == STATUS_OK)
        status = check("rpma_conn_get_rcq", rpma_conn_get_rcq(conn, &rcq));
    if (status == STATUS_OK && srq)
        status = check("rpma_srq_get_rcq", rpma_srq_get_rcq(srq, &srq_rcq));
    if (status == STATUS_OK)
        status = add_queue(sources, cq);
    if (status == STATUS_OK)
        status = add_queue(sources, rcq);
    if (status == STATUS_OK)
        status = add_queue(sources, srq_rcq);

    struct pollfd *event = &sources->fds[sources->cq_count];
    event->events = POLLIN;
    if (status == STATUS_OK) /* a posted receive does not complete when the peer disconnects */
        status = check("rpma_conn_get_event_fd", rpma_conn_get_event_fd(conn, &event->fd));
    return status;
}

/* Returns RPMA_E_NO_COMPLETION if all queues are empty. */
static int collect(const struct sources *sources, struct ibv_wc *wc)
{
    int ret = RPMA_E_NO_COMPLETION;
    for (nfds_t i = 0; i < sources->cq_count && ret == RPMA_E_NO_COMPLETION; ++i)
        ret = rpma_cq_get_wc(sources->cqs[i], 1, wc, NULL);
    return ret;
}

/* Takes exactly one event: queues that share a channel are readable together, so a second wait might block. Leaves the
 * disconnection for a caller that expects it. */
static int take_event(struct rpma_conn *conn, const struct sources *sources, bool *has_ended)
{
    for (nfds_t i = 0; i < sources->cq_count; ++i) {
        if (!sources->fds[i].revents)
            continue;

        struct rpma_cq *cq = sources->cqs[i];
        const int ret = rpma_cq_wait(cq);
        if (ret == RPMA_E_SHARED_CHANNEL)
            return check("rpma_conn_wait", rpma_conn_wait(conn, 0, &cq, NULL));
        return check("rpma_cq_wait", ret);
    }

    *has_ended = true;
    return STATUS_OK;
}

static int wait_for_source(
        const struct arguments *args, struct rpma_conn *conn, struct sources *sources, bool *has_ended)
{
    const int status = wait_readable(sources->fds, sources->cq_count + 1, args->timeout_s, "completion");
    return status ? status : take_event(conn, sources, has_ended);
}

int next_completion_or_end(const struct arguments *args, struct rpma_conn *conn, const struct rpma_srq *srq,
        struct ibv_wc *wc, bool *has_ended)
{
    struct sources sources = {0};
    int status = find_sources(conn, srq, &sources);

    *has_ended = false;
    while (status == STATUS_OK && !*has_ended) {
        const int ret = collect(&sources, wc);
        if (ret != RPMA_E_NO_COMPLETION)
            return check("rpma_cq_get_wc", ret);

        /* no completion yet, or an event whose completion was already polled */
        status = wait_for_source(args, conn, &sources, has_ended);
    }
    return status;
}

static int report_early_end(void)
{
    warnx("the peer disconnected before all operations were complete (see its output)");
    return STATUS_FAILED;
}

int next_completion(const struct arguments *args, struct rpma_conn *conn, const struct rpma_srq *srq, struct ibv_wc *wc)
{
    bool has_ended;
    const int status = next_completion_or_end(args, conn, srq, wc, &has_ended);
    return has_ended ? report_early_end() : status;
}

int wait_for_cq(const struct arguments *args, struct rpma_conn *conn)
{
    struct sources sources = {0};
    bool has_ended = false;
    int status = find_sources(conn, NULL, &sources);
    if (status == STATUS_OK)
        status = wait_for_source(args, conn, &sources, &has_ended);
    return has_ended ? report_early_end() : status;
}

int check_completion(const struct ibv_wc *wc)
{
    if (wc->status == IBV_WC_SUCCESS)
        return STATUS_OK;

    warnx("%s failed: %s", (const char *)(uintptr_t)wc->wr_id, ibv_wc_status_str(wc->status));
    return STATUS_FAILED;
}

int check_completion_of(const char *op_context, const struct ibv_wc *wc)
{
    const int status = check_completion(wc);
    if (status == STATUS_OK && strcmp((const char *)(uintptr_t)wc->wr_id, op_context) != 0) {
        warnx("unexpected completion instead of that of %s", op_context);
        return STATUS_FAILED;
    }
    return status;
}

int wait_for_completion(const struct arguments *args, struct rpma_conn *conn, const char *op_context)
{
    struct ibv_wc wc;
    const int status = next_completion(args, conn, NULL, &wc);
    return status ? status : check_completion_of(op_context, &wc);
}

int wait_for_last_send(
        const struct arguments *args, struct rpma_conn *conn, const struct rpma_srq *srq, const char *op_context)
{
    struct ibv_wc wc;
    bool has_ended;
    const int status = next_completion_or_end(args, conn, srq, &wc, &has_ended);
    if (status != STATUS_OK || has_ended || (wc.wr_id == (uintptr_t)op_context && wc.status == IBV_WC_WR_FLUSH_ERR))
        return status;
    return check_completion_of(op_context, &wc);
}
