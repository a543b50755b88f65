// SPDX-License-Identifier: BSD-3-Clause
#ifndef EXAMPLES_MESSAGE_H
#define EXAMPLES_MESSAGE_H 1

#include <stdint.h>

#include <librpma.h>

#include "arguments.h"
#include "memory.h"

/* Messages are 8 bytes: an unsigned number in the byte order of the machine. This one means that no more will come. */
#define MESSAGE_DONE UINT64_MAX

/* Two message slots, one to send from and one to receive into, and their registration. */
struct mailbox {
    struct memory memory;
    struct rpma_mr_local *mr;
};

enum message_progress {
    MESSAGE_SENT = 1 << 0,
    MESSAGE_RECEIVED = 1 << 1
};

/* All of them return a status. */
int mailbox_open(struct mailbox *mailbox, struct rpma_peer *peer);
int mailbox_close(struct mailbox *mailbox);

/* Posts the receive slot, before the connection exists and afterwards. */
int mailbox_expect_first(struct mailbox *mailbox, struct rpma_conn_req *req);
int mailbox_expect(struct mailbox *mailbox, struct rpma_conn *conn);

/* Posts number for sending; the slot is free again once that is MESSAGE_SENT. */
int mailbox_send(struct mailbox *mailbox, struct rpma_conn *conn, uint64_t number);

/* Waits for everything in progress, a set of enum message_progress, and for nothing else. */
int mailbox_wait(const struct arguments *args, struct rpma_conn *conn, unsigned progress);

/* The message received last. */
uint64_t mailbox_received(const struct mailbox *mailbox);

#endif /* EXAMPLES_MESSAGE_H */
