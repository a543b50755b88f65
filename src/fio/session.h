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
    bool is_closed; /* the other side has gone */
    unsigned int empty_polls;
};

/* Functions below return 0 or a positive number, or a negative errno; those with a thread report the error. */

/* Finds the device and makes a peer on it. */
int session_open(struct thread_data *td, struct session *session, enum rpma_util_ibv_context_type side);

/* Takes an established connection over. */
int session_begin(struct thread_data *td, struct session *session, struct rpma_conn *conn);

/* Takes a completion if there is one: 1 or 0. */
int session_poll(struct session *session, struct ibv_wc *wc);

/*
 * Takes the next completion: 1. Without one it returns 0, immediately or after a short sleep, so that the caller can
 * check other conditions. Returns -ECONNRESET if the peer has disconnected.
 */
int session_next_completion(struct session *session, struct ibv_wc *wc);

/* Sleeps until something happens on the connection, but not long; then is_closed may be set. */
int session_watch(struct session *session);

/* Ends the connection if there is one, and waits shortly for the other side to confirm that. */
void session_end(struct session *session);

/* Gives the peer back, which is the last thing: nothing made from it may be left. */
void session_close(struct session *session);

/* Waits for fd to become readable: 1, 0 after timeout_ms, or -EINTR if fio wants the thread to end. */
int wait_for(const struct thread_data *td, int fd, int64_t timeout_ms);

#endif /* RPMA_FIO_SESSION_H */
