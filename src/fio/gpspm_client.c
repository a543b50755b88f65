// SPDX-License-Identifier: BSD-3-Clause
/* General Purpose Persistency Method: the client writes, and asks the server by message to persist what it wrote. */
#include <errno.h>
#include <stdlib.h>

#include "client.h"
#include "engine.h"
#include "flush_message.h"
#include "report.h"

/* Requests go round the slots. A slot is free again when its request is sent and answered, in whatever order. */
struct requests {
    struct rpma_mr_local *mr;
    char *slots;
    uint64_t posted;
    uint64_t sent;
    uint64_t answered;
    uint64_t answered_number; /* of the operation that the last answer is about */
};

static int configure(const struct client *client, struct rpma_conn_cfg *cfg)
{
    int ret = rpma_conn_cfg_set_sq_size(cfg, client->depth + client->max_flushes);
    if (ret == 0)
        ret = rpma_conn_cfg_set_rq_size(cfg, client->max_flushes);
    if (ret == 0)
        ret = rpma_conn_cfg_set_cq_size(cfg, client->depth + 2 * client->max_flushes);
    return ret;
}

static int check_server(struct thread_data *td, const struct client *client)
{
    const struct endpoint *server = &client->session.endpoint;
    if (client->max_messages == 0)
        return -report(td, EPROTO, "%s port %s takes no messages: it runs librpma_apm_server, not librpma_gpspm_server",
                server->address, server->port);
    if (client->max_flushes > client->max_messages)
        return -report(td, EINVAL,
                "%u requests at once are too many for the server's iodepth=%u: raise that, or iodepth_batch_submit= "
                "here",
                client->max_flushes, client->max_messages);
    if (client->is_pmem && client->has_direct_write && td->subjob_number == 0)
        note(td, "the server's PMem is written directly: librpma_apm_client and librpma_apm_server need no messages");
    return 0;
}

static int begin(struct thread_data *td, struct client *client)
{
    int ret = check_server(td, client);
    if (ret)
        return ret;
    const size_t size = (size_t)client->max_flushes * SLOT_SIZE;
    struct requests *requests = calloc(1, sizeof(*requests));
    client->kind_data = requests;
    if (!requests || posix_memalign((void **)&requests->slots, page_size, size) != 0)
        return -report(td, ENOMEM, "out of memory for iodepth=%u", td->o.iodepth);
    ret = rpma_mr_reg(
            client->session.peer, requests->slots, size, RPMA_MR_USAGE_SEND | RPMA_MR_USAGE_RECV, &requests->mr);
    return ret ? -report(td, EIO, "%zu bytes of messages cannot be registered: %s", size, reason(ret)) : 0;
}

static size_t slot_of(const struct client *client, uint64_t request)
{
    return (size_t)(request % client->max_flushes) * SLOT_SIZE;
}

static int send_request(struct client *client, const struct flush_request *request)
{
    struct requests *requests = client->kind_data;
    const size_t slot = slot_of(client, requests->posted);
    const size_t length = flush_request_write(request, requests->slots + slot);
    const int ret = rpma_send(client->session.conn, requests->mr, slot, length, RPMA_F_COMPLETION_ALWAYS, NULL);
    if (ret == 0)
        ++requests->posted;
    return ret;
}

static int flush(struct client *client, uint64_t offset, uint64_t length, uint64_t number)
{
    struct requests *requests = client->kind_data;
    const size_t answer = slot_of(client, requests->posted) + MESSAGE_SIZE;
    const struct flush_request request = {.offset = offset, .length = length, .context = number};
    const int ret = rpma_recv(client->session.conn, requests->mr, answer, MESSAGE_SIZE, requests->slots + answer);
    return ret ? ret : send_request(client, &request);
}

static int take_message(struct client *client, const struct ibv_wc *wc)
{
    struct requests *requests = client->kind_data;
    if (wc->opcode == IBV_WC_SEND) {
        ++requests->sent;
    } else {
        const void *message = (const void *)(uintptr_t)wc->wr_id;
        uint64_t number = 0;
        if (!flush_response_read(message, wc->byte_len, &number) || number < client->oldest || number >= client->next)
            return -EPROTO;
        ++requests->answered;
        requests->answered_number = number;
    }
    /* A request whose sending is not reported yet still takes room in the queues. */
    if (requests->answered != 0 && requests->sent >= requests->answered)
        client->flushed = requests->answered_number + 1;
    return 0;
}

static void bid_farewell(struct thread_data *td, struct client *client)
{
    struct requests *requests = client->kind_data;
    const struct flush_request done = {0};
    if (!requests || !requests->mr)
        return;
    const int ret = send_request(client, &done);
    if (ret)
        note(td, "the server cannot be told that the job is done: %s", reason(ret));
    while (ret == 0 && requests->sent < requests->posted) {
        if (client_wait(td, client) != 0)
            return;
    }
}

static void end(struct client *client)
{
    struct requests *requests = client->kind_data;
    if (!requests)
        return;
    (void)rpma_mr_dereg(&requests->mr);
    free(requests->slots);
    free(requests);
    client->kind_data = NULL;
}

static int init(struct thread_data *td)
{
    static const struct client_kind kind = {
            .configure = configure,
            .begin = begin,
            .flush = flush,
            .take_message = take_message,
            .bid_farewell = bid_farewell,
            .end = end,
    };
    return client_init(td, &kind);
}

struct ioengine_ops ioengine = {
        .name = "librpma_gpspm_client",
        .init = init,
        CLIENT_FUNCTIONS,
};
