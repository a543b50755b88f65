// SPDX-License-Identifier: BSD-3-Clause
#ifndef EXAMPLES_EXPLAIN_H
#define EXAMPLES_EXPLAIN_H 1

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <librpma.h>

#include "arguments.h"

/*
 * Common errors in the first use. Each function gets the return value of a librpma call, whose errno must be unchanged,
 * prints the error and the remedy on stderr, and returns a status.
 */

/* rpma_utils_get_ibv_context() */
int explain_device(const struct arguments *args, int ret);

/* rpma_mr_reg() of size bytes */
int explain_mr_reg(size_t size, int ret);

/* rpma_ep_listen(). On success, reports on stderr and on args->ready_fd that the server listens. */
int explain_listening(const struct arguments *args, int ret);

/* rpma_conn_req_new() */
int explain_request(const struct arguments *args, int ret);

/*
 * Called by a client with the first event of a connection and the status of the attempt. Deletes a connection that is
 * not established. Returns true, after a moment, if the client should try again: it was rejected, and less than
 * args->retry_s seconds have passed since the first call. Otherwise reports the reason in *status. *deadline_ms must be
 * 0 for the first call.
 */
bool try_again(const struct arguments *args, enum rpma_conn_event event, int64_t *deadline_ms, struct rpma_conn **conn,
        int *status);

#endif /* EXAMPLES_EXPLAIN_H */
