// SPDX-License-Identifier: BSD-3-Clause
#include "message.h"

#include <err.h>
#include <string.h>

#include "connection.h"
#include "region.h"
#include "status.h"

enum {
    MESSAGE_SIZE = sizeof(uint64_t),
    SEND_OFFSET = 0,
    RECV_OFFSET = MESSAGE_SIZE,
    MAILBOX_SIZE = 2 * MESSAGE_SIZE
};

static const char recv_name[] = "rpma_recv";
static const char send_name[] = "rpma_send";

int mailbox_open(struct mailbox *mailbox, struct rpma_peer *peer)
{
    const int status = memory_allocate(&mailbox->memory, MAILBOX_SIZE);
    return status ? status
                  : register_memory(peer, &mailbox->memory, RPMA_MR_USAGE_SEND | RPMA_MR_USAGE_RECV, &mailbox->mr);
}

int mailbox_close(struct mailbox *mailbox)
{
    const int status = check("rpma_mr_dereg", rpma_mr_dereg(&mailbox->mr));
    memory_close(&mailbox->memory);
    return status;
}

int mailbox_expect_first(struct mailbox *mailbox, struct rpma_conn_req *req)
{
    return check("rpma_conn_req_recv", rpma_conn_req_recv(req, mailbox->mr, RECV_OFFSET, MESSAGE_SIZE, recv_name));
}

int mailbox_expect(struct mailbox *mailbox, struct rpma_conn *conn)
{
    return check(recv_name, rpma_recv(conn, mailbox->mr, RECV_OFFSET, MESSAGE_SIZE, recv_name));
}

int mailbox_send(struct mailbox *mailbox, struct rpma_conn *conn, uint64_t number)
{
    memcpy(mailbox->memory.base + SEND_OFFSET, &number, sizeof(number));
    return check(
            send_name, rpma_send(conn, mailbox->mr, SEND_OFFSET, MESSAGE_SIZE, RPMA_F_COMPLETION_ALWAYS, send_name));
}

/* Which part of the progress a completion is; 0 and a line on stderr if it is none. */
static unsigned progress_of(const struct ibv_wc *wc)
{
    if (wc->wr_id == (uintptr_t)send_name)
        return MESSAGE_SENT;
    if (wc->byte_len == MESSAGE_SIZE)
        return MESSAGE_RECEIVED;

    warnx("the other side sent a message of %u bytes instead of %d: it runs another example", wc->byte_len,
            MESSAGE_SIZE);
    return 0;
}

int mailbox_wait(const struct arguments *args, struct rpma_conn *conn, unsigned progress)
{
    int status = STATUS_OK;

    while (status == STATUS_OK && progress != 0) {
        struct ibv_wc wc;
        status = next_completion(args, conn, &wc);
        if (status == STATUS_OK)
            status = check_completion(&wc);
        if (status != STATUS_OK)
            break;

        const unsigned made = progress_of(&wc);
        if (made == 0 || !(progress & made))
            return STATUS_FAILED;
        progress &= ~made;
    }
    return status;
}

uint64_t mailbox_received(const struct mailbox *mailbox)
{
    uint64_t number;
    memcpy(&number, mailbox->memory.base + RECV_OFFSET, sizeof(number));
    return number;
}
