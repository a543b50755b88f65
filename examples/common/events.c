// SPDX-License-Identifier: BSD-3-Clause
#include "events.h"

#include <err.h>

#include "status.h"
#include "wait.h"

int next_event(const struct arguments *args, struct rpma_conn *conn, enum rpma_conn_event *event)
{
    struct pollfd fd = {.events = POLLIN};
    int status = check("rpma_conn_get_event_fd", rpma_conn_get_event_fd(conn, &fd.fd));
    if (status == STATUS_OK)
        status = wait_readable(&fd, 1, args->timeout_s, "response of the peer");
    return status ? status : check("rpma_conn_next_event", rpma_conn_next_event(conn, event));
}

int expect_event(const struct arguments *args, struct rpma_conn *conn, enum rpma_conn_event expected)
{
    enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
    const int status = next_event(args, conn, &event);
    if (status == STATUS_OK && event != expected) {
        warnx("unexpected connection event %s instead of %s (see the output of the peer)",
                rpma_utils_conn_event_2str(event), rpma_utils_conn_event_2str(expected));
        return STATUS_FAILED;
    }
    return status;
}

int wait_for_request(const struct arguments *args, const struct rpma_ep *ep)
{
    struct pollfd fd = {.events = POLLIN};
    const int status = check("rpma_ep_get_fd", rpma_ep_get_fd(ep, &fd.fd));
    return status ? status : wait_readable(&fd, 1, args->timeout_s, "client");
}
