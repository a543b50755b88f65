// SPDX-License-Identifier: BSD-3-Clause
#ifndef EXAMPLES_MAILBOX_H
#define EXAMPLES_MAILBOX_H 1

#include <stddef.h>

#include <librpma.h>

#include "arguments.h"
#include "memory.h"

/* Two registered slots for messages: one to send and one to receive. */
struct mailbox {
    struct memory memory;
    struct rpma_mr_local *mr;
    size_t slot_size;
    struct rpma_srq *srq; /* queue of the receives, owned by the caller; the connection's queue if NULL */
    size_t received_size; /* size of the received message */
};

enum mailbox_progress {
    MESSAGE_SENT = 1 << 0,
    MESSAGE_RECEIVED = 1 << 1
};

/* A message has at most slot_size bytes. srq may be NULL. Functions with an int result return a status. */
int mailbox_open(struct mailbox *mailbox, struct rpma_peer *peer, size_t slot_size, struct rpma_srq *srq);
int mailbox_close(struct mailbox *mailbox);

/* Returns the slot of the next message to send, and the last received message. */
char *mailbox_outgoing(const struct mailbox *mailbox);
const char *mailbox_incoming(const struct mailbox *mailbox);

/* Posts the receive slot, before the connection exists or later. */
int mailbox_expect_first(struct mailbox *mailbox, struct rpma_conn_req *req);
int mailbox_expect(struct mailbox *mailbox, struct rpma_conn *conn);

/* Calls mailbox_expect_first() for accept_one_client(). `context` is the mailbox. */
int mailbox_inspect_request(struct rpma_conn_req *req, void *context);

/* Sends the first `size` bytes of the outgoing slot, which must not change before MESSAGE_SENT. */
int mailbox_send(struct mailbox *mailbox, struct rpma_conn *conn, size_t size);

/*
 * Waits for outstanding operations, a set of enum mailbox_progress, in any order. Calls wait_for_last_send() if only
 * MESSAGE_SENT remains.
 */
int mailbox_wait(const struct arguments *args, struct mailbox *mailbox, struct rpma_conn *conn, unsigned progress);

#endif /* EXAMPLES_MAILBOX_H */
