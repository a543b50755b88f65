// SPDX-License-Identifier: BSD-3-Clause
#include <inttypes.h>
#include <stdio.h>

#include <librpma.h>

#include "arguments.h"
#include "connection.h"
#include "message.h"
#include "status.h"

static const struct program program = {
        .purpose = "Answers every number of one client with the next one, until the client says that this was all.",
        .operands = "",
        .operands_help = "",
        .retry_s = RETRY_NOT_OFFERED,
};

/* The client may send as soon as it is connected: by then a buffer for the first message must be in place. */
static int expect_first(struct rpma_conn_req *req, void *context)
{
    return mailbox_expect_first(context, req);
}

static int answer(struct mailbox *mailbox, struct rpma_conn *conn, uint64_t number)
{
    int status = mailbox_expect(mailbox, conn);
    if (status == STATUS_OK)
        status = mailbox_send(mailbox, conn, number);
    if (status == STATUS_OK)
        printf("Value sent: %" PRIu64 "\n", number);
    return status;
}

static int play(const struct arguments *args, struct mailbox *mailbox, struct rpma_conn *conn)
{
    int status = mailbox_wait(args, conn, MESSAGE_RECEIVED);

    while (status == STATUS_OK && mailbox_received(mailbox) != MESSAGE_DONE) {
        printf("Value received: %" PRIu64 "\n", mailbox_received(mailbox));
        status = answer(mailbox, conn, mailbox_received(mailbox) + 1);
        if (status == STATUS_OK)
            status = mailbox_wait(args, conn, MESSAGE_SENT | MESSAGE_RECEIVED);
    }
    return status;
}

int main(int argc, char **argv)
{
    const struct arguments args = arguments_parse(argc, argv, &program);
    struct rpma_peer *peer = NULL;
    struct mailbox mailbox = {0};
    struct rpma_conn *conn = NULL;

    int status = open_peer(&args, RPMA_UTIL_IBV_CONTEXT_LOCAL, &peer);
    if (status == STATUS_OK)
        status = mailbox_open(&mailbox, peer);
    if (status == STATUS_OK)
        status = accept_one_client(&args, peer, NULL, expect_first, &mailbox, &conn);
    if (status == STATUS_OK)
        status = play(&args, &mailbox, conn);
    if (status == STATUS_OK)
        status = disconnect(&args, conn);

    status |= check("rpma_conn_delete", rpma_conn_delete(&conn));
    status |= mailbox_close(&mailbox);
    status |= check("rpma_peer_delete", rpma_peer_delete(&peer));
    return status;
}
