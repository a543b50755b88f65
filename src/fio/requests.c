// SPDX-License-Identifier: BSD-3-Clause
#include "requests.h"

#include <errno.h>
#include <stdlib.h>

#include "message.h"
#include "report.h"

/* Requests use the slots in turn. A slot is free when its request was sent and its response received, in any order. */
struct requests {
    struct rpma_mr_local *mr;
    char *slots;
    uint64_t posted;
    uint64_t sent;
    uint64_t responses;
    uint64_t responded_number; /* operation of the last response */
};

int requests_configure(const struct client *client, struct rpma_conn_cfg *cfg)
{
    int ret = rpma_conn_cfg_set_sq_size(cfg, client->depth + client->max_flushes);
    if (ret == 0)
        ret = rpma_conn_cfg_set_rq_size(cfg, client->max_flushes);
    if (ret == 0)
        ret = rpma_conn_cfg_set_cq_size(cfg, client->depth + 2 * client->max_flushes);
    return ret;
}

int requests_begin(struct thread_data *td, struct client *client)
{
    if (client->max_flushes > client->max_messages)
        return -report(td, EINVAL,
                "%u outstanding requests exceed the server's iodepth=%u (increase it, or iodepth_batch_submit= of this "
                "job)",
                client->max_flushes, client->max_messages);
    const size_t size = (size_t)client->max_flushes * SLOT_SIZE;
    struct requests *requests = calloc(1, sizeof(*requests));
    client->kind_data = requests;
    if (!requests || posix_memalign((void **)&requests->slots, page_size, size) != 0)
        return -report(td, ENOMEM, "out of memory for iodepth=%u", td->o.iodepth);
    const int ret = rpma_mr_reg(
            client->session.peer, requests->slots, size, RPMA_MR_USAGE_SEND | RPMA_MR_USAGE_RECV, &requests->mr);
    return ret ? -report(td, EIO, "cannot register %zu bytes of messages: %s", size, reason(ret)) : 0;
}

static size_t slot_of(const struct client *client, uint64_t request)
{
    return (size_t)(request % client->max_flushes) * SLOT_SIZE;
}

static int send_request(struct client *client, uint64_t offset, uint64_t length, uint64_t number)
{
    struct requests *requests = client->kind_data;
    const size_t slot = slot_of(client, requests->posted);
    const size_t size = client->kind->write_request(client, offset, length, number, requests->slots + slot);
    const int ret = rpma_send(client->session.conn, requests->mr, slot, size, RPMA_F_COMPLETION_ALWAYS, NULL);
    if (ret == 0)
        ++requests->posted;
    return ret;
}

int requests_flush(struct client *client, uint64_t offset, uint64_t length, uint64_t number)
{
    struct requests *requests = client->kind_data;
    const size_t response = slot_of(client, requests->posted) + MESSAGE_SIZE;
    const int ret = rpma_recv(client->session.conn, requests->mr, response, MESSAGE_SIZE, requests->slots + response);
    return ret ? ret : send_request(client, offset, length, number);
}

int requests_take_message(struct client *client, const struct ibv_wc *wc)
{
    struct requests *requests = client->kind_data;
    if (wc->opcode == IBV_WC_SEND) {
        ++requests->sent;
    } else {
        const void *message = (const void *)(uintptr_t)wc->wr_id;
        uint64_t number = 0;
        if (!response_read(message, wc->byte_len, &number) || number < client->oldest || number >= client->next)
            return -EPROTO;
        ++requests->responses;
        requests->responded_number = number;
    }
    /* A request without a send completion still occupies an entry of the queues. */
    if (requests->responses != 0 && requests->sent >= requests->responses)
        client->flushed = requests->responded_number + 1;
    return 0;
}

void requests_shut_down(struct thread_data *td, struct client *client)
{
    struct requests *requests = client->kind_data;
    if (!requests || !requests->mr)
        return;
    const int ret = send_request(client, 0, 0, 0);
    if (ret)
        print_line(td, "cannot send the final message: %s", reason(ret));
    /* The server may end the connection when it has the message, before the acknowledgment is on its way. */
    while (ret == 0 && requests->sent < requests->posted && !client->session.is_closed) {
        if (client_wait(td, client) != 0)
            return;
    }
}

void requests_end(struct client *client)
{
    struct requests *requests = client->kind_data;
    if (!requests)
        return;
    (void)rpma_mr_dereg(&requests->mr);
    free(requests->slots);
    free(requests);
    client->kind_data = NULL;
}
