// SPDX-License-Identifier: BSD-3-Clause
#include "fake_connection.h"

#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct fake_connection fake_connection;

const unsigned char fake_mr_descriptor[21] = {0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0x20, 0, 0, 0, 0, 0, 0, 4, 3, 2, 1, 0x38};

/* never dereferenced */
static struct rpma_cq *const any_queue = (struct rpma_cq *)&fake_connection;

static int readable_fd = -1;
static int silent_fd = -1;

int fake_connection_open(void **state)
{
    memset(&fake_connection, 0, sizeof(fake_connection));
    readable_fd = eventfd(1, EFD_CLOEXEC);
    silent_fd = eventfd(0, EFD_CLOEXEC);
    return readable_fd < 0 || silent_fd < 0;
}

int fake_connection_close(void **state)
{
    return close(readable_fd) | close(silent_fd);
}

int rpma_mr_get_descriptor_size(const struct rpma_mr_local *mr, size_t *desc_size)
{
    *desc_size = sizeof(fake_mr_descriptor);
    return 0;
}

int rpma_mr_get_descriptor(const struct rpma_mr_local *mr, void *desc)
{
    memcpy(desc, fake_mr_descriptor, sizeof(fake_mr_descriptor));
    return 0;
}

int rpma_conn_get_event_fd(const struct rpma_conn *conn, int *fd)
{
    *fd = fake_connection.events_left > 0 ? readable_fd : silent_fd;
    return 0;
}

int rpma_conn_next_event(struct rpma_conn *conn, enum rpma_conn_event *event)
{
    *event = *fake_connection.events++;
    --fake_connection.events_left;
    return 0;
}

int rpma_conn_disconnect(struct rpma_conn *conn)
{
    ++fake_connection.disconnects;
    return 0;
}

int rpma_conn_get_cq(const struct rpma_conn *conn, struct rpma_cq **cq_ptr)
{
    *cq_ptr = any_queue;
    return 0;
}

int rpma_conn_get_rcq(const struct rpma_conn *conn, struct rpma_cq **rcq_ptr)
{
    *rcq_ptr = NULL;
    return 0;
}

int rpma_send(struct rpma_conn *conn, const struct rpma_mr_local *src, size_t offset, size_t len, int flags,
        const void *op_context)
{
    fake_connection.send_context = (uintptr_t)op_context;
    return 0;
}

int rpma_cq_get_fd(const struct rpma_cq *cq, int *fd)
{
    *fd = fake_connection.completions_left > 0 ? readable_fd : silent_fd;
    return 0;
}

int rpma_cq_wait(struct rpma_cq *cq)
{
    return 0;
}

int rpma_cq_get_wc(struct rpma_cq *cq, int num_entries, struct ibv_wc *wc, int *num_entries_got)
{
    if (fake_connection.completions_left == 0)
        return RPMA_E_NO_COMPLETION;

    *wc = *fake_connection.completions++;
    --fake_connection.completions_left;
    return wc->status == FAKE_NO_COMPLETION ? RPMA_E_NO_COMPLETION : 0;
}
