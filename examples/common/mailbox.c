// SPDX-License-Identifier: BSD-3-Clause
#include "mailbox.h"

#include <err.h>
#include <stdint.h>

#include "completion.h"
#include "region.h"
#include "status.h"

static const char recv_name[] = "rpma_recv";
static const char srq_recv_name[] = "rpma_srq_recv";
static const char send_name[] = "rpma_send";

int mailbox_open(struct mailbox *mailbox, struct rpma_peer *peer, size_t slot_size, struct rpma_srq *srq)
{
    mailbox->slot_size = slot_size;
    mailbox->srq = srq;
    const int status = memory_allocate(&mailbox->memory, 2 * slot_size);
    return status ? status
                  : register_memory(peer, &mailbox->memory, RPMA_MR_USAGE_SEND | RPMA_MR_USAGE_RECV, &mailbox->mr);
}

int mailbox_close(struct mailbox *mailbox)
{
    const int status = check("rpma_mr_dereg", rpma_mr_dereg(&mailbox->mr));
    memory_close(&mailbox->memory);
    return status;
}

char *mailbox_outgoing(const struct mailbox *mailbox)
{
    return mailbox->memory.base;
}

const char *mailbox_incoming(const struct mailbox *mailbox)
{
    return mailbox->memory.base + mailbox->slot_size;
}

static int expect_on_srq(struct mailbox *mailbox)
{
    const size_t size = mailbox->slot_size;
    return check(srq_recv_name, rpma_srq_recv(mailbox->srq, mailbox->mr, size, size, srq_recv_name));
}

int mailbox_expect_first(struct mailbox *mailbox, struct rpma_conn_req *req)
{
    if (mailbox->srq)
        return expect_on_srq(mailbox);

    const size_t size = mailbox->slot_size;
    return check("rpma_conn_req_recv", rpma_conn_req_recv(req, mailbox->mr, size, size, recv_name));
}

int mailbox_inspect_request(struct rpma_conn_req *req, void *context)
{
    return mailbox_expect_first(context, req);
}

int mailbox_expect(struct mailbox *mailbox, struct rpma_conn *conn)
{
    if (mailbox->srq)
        return expect_on_srq(mailbox);

    const size_t size = mailbox->slot_size;
    return check(recv_name, rpma_recv(conn, mailbox->mr, size, size, recv_name));
}

int mailbox_send(struct mailbox *mailbox, struct rpma_conn *conn, size_t size)
{
    return check(send_name, rpma_send(conn, mailbox->mr, 0, size, RPMA_F_COMPLETION_ALWAYS, send_name));
}

/* Receives of an SRQ serve all its connections. Only the queue pair number identifies the sender. */
static int check_sender(struct rpma_conn *conn, const struct ibv_wc *wc)
{
    uint32_t qp_num = 0;
    const int status = check("rpma_conn_get_qp_num", rpma_conn_get_qp_num(conn, &qp_num));
    if (status == STATUS_OK && wc->qp_num != qp_num) {
        warnx("message received on queue pair %u instead of %u", wc->qp_num, qp_num);
        return STATUS_FAILED;
    }
    return status;
}

int mailbox_wait(const struct arguments *args, struct mailbox *mailbox, struct rpma_conn *conn, unsigned progress)
{
    int status = STATUS_OK;

    while (status == STATUS_OK && progress != 0) {
        struct ibv_wc wc;
        if (progress == MESSAGE_SENT)
            return wait_for_last_send(args, conn, mailbox->srq, send_name);
        status = next_completion(args, conn, mailbox->srq, &wc);
        if (status == STATUS_OK)
            status = check_completion(&wc);
        if (status != STATUS_OK)
            break;

        const unsigned made = wc.wr_id == (uintptr_t)send_name ? MESSAGE_SENT : MESSAGE_RECEIVED;
        if (!(progress & made)) {
            warnx("unexpected completion of %s", (const char *)(uintptr_t)wc.wr_id);
            return STATUS_FAILED;
        }
        if (made == MESSAGE_RECEIVED)
            mailbox->received_size = wc.byte_len;
        if (made == MESSAGE_RECEIVED && mailbox->srq)
            status = check_sender(conn, &wc);
        progress &= ~made;
    }
    return status;
}
