// SPDX-License-Identifier: BSD-3-Clause
#include "events.h"

#include <err.h>

#include "status.h"
#include "wait.h"

int wait_for_event(const struct arguments *args, const struct rpma_conn *conn)
{
    struct pollfd fd = {.events = POLLIN};
    const int status = check("rpma_conn_get_event_fd", rpma_conn_get_event_fd(conn, &fd.fd));
    return status ? status : wait_readable(&fd, 1, args->timeout_s, "response of the peer");
}

int check_event(enum rpma_conn_event event, enum rpma_conn_event expected)
{
    if (event == expected)
        return STATUS_OK;

    warnx("unexpected connection event %s instead of %s (see the output of the peer)",
            rpma_utils_conn_event_2str(event), rpma_utils_conn_event_2str(expected));
    return STATUS_FAILED;
}

int expect_event(const struct arguments *args, struct rpma_conn *conn, enum rpma_conn_event expected)
{
    enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
    int status = wait_for_event(args, conn);
    if (status == STATUS_OK)
        status = check("rpma_conn_next_event", rpma_conn_next_event(conn, &event));
    return status ? status : check_event(event, expected);
}

int wait_for_request(const struct arguments *args, const struct rpma_ep *ep)
{
    struct pollfd fd = {.events = POLLIN};
    const int status = check("rpma_ep_get_fd", rpma_ep_get_fd(ep, &fd.fd));
    return status ? status : wait_readable(&fd, 1, args->timeout_s, "client");
}
