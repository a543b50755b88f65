// SPDX-License-Identifier: BSD-3-Clause
#ifndef EXAMPLES_EVENTS_H
#define EXAMPLES_EVENTS_H 1

#include <librpma.h>

#include "arguments.h"

/* All functions return a status (status.h). Waits end after args->timeout_s seconds. */

/* Waits until rpma_conn_next_event() does not block. */
int wait_for_event(const struct arguments *args, const struct rpma_conn *conn);

/* Reports an event that differs from the expected one. */
int check_event(enum rpma_conn_event event, enum rpma_conn_event expected);

/* wait_for_event(), rpma_conn_next_event() and check_event() */
int expect_event(const struct arguments *args, struct rpma_conn *conn, enum rpma_conn_event expected);

/* Waits until rpma_ep_next_conn_req() does not block. */
int wait_for_request(const struct arguments *args, const struct rpma_ep *ep);

#endif /* EXAMPLES_EVENTS_H */
