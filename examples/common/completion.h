// SPDX-License-Identifier: BSD-3-Clause
#ifndef EXAMPLES_COMPLETION_H
#define EXAMPLES_COMPLETION_H 1

#include <stdbool.h>

#include <librpma.h>

#include "arguments.h"

/* All functions return a status (status.h), and fail after args->timeout_s seconds without a completion. */

/*
 * Takes the next completion, with any status, unless the peer has disconnected. It can come from the connection's main
 * CQ, from its receive CQ if it has one, or from the CQ of srq if it has one. The order of completions of different
 * queues is not the order in which the operations completed.
 */
int next_completion(
        const struct arguments *args, struct rpma_conn *conn, const struct rpma_srq *srq, struct ibv_wc *wc);

/* Like next_completion(), but sets *has_ended and succeeds if the peer disconnects before a completion. */
int next_completion_or_end(const struct arguments *args, struct rpma_conn *conn, const struct rpma_srq *srq,
        struct ibv_wc *wc, bool *has_ended);

/*
 * Waits until the operation posted with op_context, the name of the operation, is complete. The completion of an
 * earlier operation can only be an error, as the others are posted with RPMA_F_COMPLETION_ON_ERROR.
 */
int wait_for_completion(const struct arguments *args, struct rpma_conn *conn, const char *op_context);

/*
 * Like complete(), for a message after which the peer may disconnect. The disconnection counts as success, because the
 * acknowledgment can be lost with the connection. A disconnection by this side would overtake the message.
 */
int wait_for_last_send(
        const struct arguments *args, struct rpma_conn *conn, const struct rpma_srq *srq, const char *op_context);

/* Returns the status of a completion; op_context of the operation is its name. */
int check_completion(const struct ibv_wc *wc);

#endif /* EXAMPLES_COMPLETION_H */
