// SPDX-License-Identifier: BSD-3-Clause
#ifndef EXAMPLES_EXPLAIN_H
#define EXAMPLES_EXPLAIN_H 1

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <librpma.h>

#include "arguments.h"

/*
 * Frequent errors of the first attempt. Each function gets the return value of a librpma call, prints the error and the
 * remedy on stderr, and returns a status. errno must be that of the call.
 */

/* For rpma_utils_get_ibv_context. */
int explain_device(const struct arguments *args, int ret);

/* For rpma_mr_reg of size bytes. */
int explain_registration(size_t size, int ret);

/* For rpma_ep_listen. Reports on stderr and on args->ready_fd that the server listens. */
int explain_listening(const struct arguments *args, int ret);

/* For rpma_conn_req_new. */
int explain_request(const struct arguments *args, int ret);

/*
 * Returns whether a client that got this event instead of RPMA_CONN_ESTABLISHED should connect again: it was rejected,
 * and args->retry_s seconds have not passed since the first call. Waits a moment then. *deadline_ms is 0 for the first
 * call.
 */
bool may_try_again(const struct arguments *args, enum rpma_conn_event event, int64_t *deadline_ms);

/* For a client that stops trying: distinguishes another service at the port from a missing listener. */
int explain_refusal(const struct arguments *args, enum rpma_conn_event event);

#endif /* EXAMPLES_EXPLAIN_H */
