// SPDX-License-Identifier: BSD-3-Clause
#ifndef EXAMPLES_COMPLETION_H
#define EXAMPLES_COMPLETION_H 1

#include <stdbool.h>

#include <librpma.h>

#include "arguments.h"

/* All of them return a status (status.h), and give up after args->timeout_s seconds without a completion. */

/*
 * Takes the next completion, of whatever status, unless the other side has gone. It may come from the connection's main
 * CQ, its receive CQ if it has one, or that of srq if there is an srq and it has one: the order of completions from
 * different queues is not the order in which the operations completed.
 */
int next_completion(
        const struct arguments *args, struct rpma_conn *conn, const struct rpma_srq *srq, struct ibv_wc *wc);

/* The same, for who takes the other side's going for an answer: *has_ended says that it went before a completion. */
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

/* The status that a completion stands for; op_context of the operation is its name. */
int check_completion(const struct ibv_wc *wc);

#endif /* EXAMPLES_COMPLETION_H */
