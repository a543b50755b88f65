// SPDX-License-Identifier: BSD-3-Clause
#ifndef EXAMPLES_EVENTS_H
#define EXAMPLES_EVENTS_H 1

#include <librpma.h>

#include "arguments.h"

/* Waits for the next event of a connection, for at most args->timeout_s seconds. Returns a status. */
int next_event(const struct arguments *args, struct rpma_conn *conn, enum rpma_conn_event *event);

/* Like next_event(), but an unexpected event is an error. */
int expect_event(const struct arguments *args, struct rpma_conn *conn, enum rpma_conn_event expected);

/* Waits until rpma_ep_next_conn_req() does not block. */
int wait_for_request(const struct arguments *args, const struct rpma_ep *ep);

#endif /* EXAMPLES_EVENTS_H */
