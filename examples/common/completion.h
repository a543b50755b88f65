// SPDX-License-Identifier: BSD-3-Clause
#ifndef EXAMPLES_COMPLETION_H
#define EXAMPLES_COMPLETION_H 1

#include <stdbool.h>

#include <librpma.h>

#include "arguments.h"

/* All functions return a status (status.h), and fail after args->timeout_s seconds without a completion. */

/*
 * Takes the next completion, with any status, unless the peer has disconnected. It may be from the connection's main
 * CQ, from its receive CQ or from the CQ of `srq`, if these exist. Completions of different queues are not ordered.
 */
int next_completion(
        const struct arguments *args, struct rpma_conn *conn, const struct rpma_srq *srq, struct ibv_wc *wc);

/* Like next_completion(), but returns success and sets *has_ended if the peer disconnects first. */
int next_completion_or_end(const struct arguments *args, struct rpma_conn *conn, const struct rpma_srq *srq,
        struct ibv_wc *wc, bool *has_ended);

/*
 * Waits until the operation posted with op_context, its name, completes. Other operations use
 * RPMA_F_COMPLETION_ON_ERROR, so a completion of one of them is an error.
 */
int wait_for_completion(const struct arguments *args, struct rpma_conn *conn, const char *op_context);

/*
 * Like wait_for_completion(), for a message after which the peer may disconnect. That counts as success, because the
 * acknowledgment can be lost. Disconnecting here instead could overtake the message.
 */
int wait_for_last_send(
        const struct arguments *args, struct rpma_conn *conn, const struct rpma_srq *srq, const char *op_context);

/*
 * Waits until rpma_cq_get_wc() of the connection's main CQ should be called again, which may still return
 * RPMA_E_NO_COMPLETION. Fails if the peer disconnects first.
 */
int wait_for_cq(const struct arguments *args, struct rpma_conn *conn);

/* Return the status of a completion, which must be of the operation op_context in the second function. op_context is
 * the name of the operation. */
int check_completion(const struct ibv_wc *wc);
int check_completion_of(const char *op_context, const struct ibv_wc *wc);

#endif /* EXAMPLES_COMPLETION_H */
