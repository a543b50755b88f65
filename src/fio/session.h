// SPDX-License-Identifier: BSD-3-Clause
#ifndef RPMA_FIO_SESSION_H
#define RPMA_FIO_SESSION_H 1

#include <stdbool.h>
#include <stdint.h>

#include <librpma.h>

#include <fio.h>

#include "options.h"

/* Objects of librpma that a thread uses: a peer, and one connection with its completion queue. */
struct session {
    struct endpoint endpoint;
    struct rpma_peer *peer;
    struct rpma_conn *conn;
    struct rpma_cq *cq;
    int event_fd;
    int cq_fd;
    bool is_busy_waiting;
    bool is_closed; /* the peer has disconnected */
    unsigned int empty_polls;
};

int session_open(struct thread_data *td, struct session *session, enum rpma_util_ibv_context_type side);

/* Takes ownership of an established connection. */
int session_begin(struct thread_data *td, struct session *session, struct rpma_conn *conn);

/* Polls one completion. Returns 1, or 0 if none is available. */
int session_poll(struct session *session, struct ibv_wc *wc);

/* Polls the next completion. Returns 1, or 0 without one: immediately or after a short sleep, so that the caller can
 * check other conditions. Returns -ECONNRESET if the peer has disconnected. */
int session_next_completion(struct session *session, struct ibv_wc *wc);

/* Sleeps until an event of the connection, but only shortly. May set is_closed. */
int session_watch(struct session *session);

/* Disconnects, if connected, and waits shortly for the confirmation of the peer. */
void session_end(struct session *session);

/* Deletes the peer. All objects created from it must have been deleted. */
void session_close(struct session *session);

/* Waits for fd to become readable. Returns 1, 0 after timeout_ms, or -EINTR if fio terminates the thread. */
int wait_for(const struct thread_data *td, int fd, int64_t timeout_ms);

#endif /* RPMA_FIO_SESSION_H */
