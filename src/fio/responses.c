// SPDX-License-Identifier: BSD-3-Clause
#include "responses.h"

#include <errno.h>
#include <stdlib.h>

#include "message.h"
#include "report.h"

struct message {
    size_t slot;
    size_t length;
};

/* Requests arrive in the buffers of posted receives, and wait for a free response slot. Responses use the slots in
 * turn, independent of the slot of the request, because sends complete in the order in which they are posted. */
struct responses {
    struct rpma_mr_local *mr;
    char *slots;
    struct message *requests; /* request n is entry n % max_messages */
    uint64_t arrived;
    uint64_t taken;
    uint64_t posted;
    uint64_t sent;
};

unsigned int responses_max_messages(const struct thread_data *td)
{
    return td->o.iodepth;
}

int responses_configure(const struct server *server, struct rpma_conn_cfg *cfg)
{
    int ret = rpma_conn_cfg_set_sq_size(cfg, server->max_messages);
    if (ret == 0)
        ret = rpma_conn_cfg_set_rq_size(cfg, server->max_messages);
    if (ret == 0)
        ret = rpma_conn_cfg_set_cq_size(cfg, 2 * server->max_messages);
    return ret;
}

static size_t incoming(size_t slot)
{
    return slot * SLOT_SIZE + MESSAGE_SIZE;
}

int responses_on_connect(struct thread_data *td, struct server *server, struct rpma_conn_req *request)
{
    const size_t size = (size_t)server->max_messages * SLOT_SIZE;
    struct responses *responses = calloc(1, sizeof(*responses));
    server->kind_data = responses;
    if (responses)
        responses->requests = calloc(server->max_messages, sizeof(struct message));
    if (!responses || !responses->requests || posix_memalign((void **)&responses->slots, page_size, size) != 0)
        return -report(td, ENOMEM, "out of memory for iodepth=%u", server->max_messages);
    int ret = rpma_mr_reg(
            server->session.peer, responses->slots, size, RPMA_MR_USAGE_SEND | RPMA_MR_USAGE_RECV, &responses->mr);
    for (size_t slot = 0; ret == 0 && slot < server->max_messages; ++slot)
        ret = rpma_conn_req_recv(request, responses->mr, incoming(slot), MESSAGE_SIZE, (const void *)slot);
    return ret ? -report(td, EIO, "iodepth=%u: cannot set up the message buffers: %s", server->max_messages,
                         reason(ret))
               : 0;
}

static int send_response(struct thread_data *td, struct server *server, uint64_t context)
{
    struct responses *responses = server->kind_data;
    const size_t slot = (size_t)(responses->posted % server->max_messages) * SLOT_SIZE;
    const size_t length = response_write(context, responses->slots + slot);
    const int ret = rpma_send(server->session.conn, responses->mr, slot, length, RPMA_F_COMPLETION_ALWAYS, NULL);
    if (ret)
        return -report(td, EIO, "cannot send a response: %s", reason(ret));
    ++responses->posted;
    return 0;
}

/* Returns 1 for the final message of the client. */
static int take_request(struct thread_data *td, struct server *server, const struct message *message)
{
    const struct responses *responses = server->kind_data;
    const size_t offset = incoming(message->slot);
    uint64_t context = 0;
    int ret = server->kind->act(td, server, responses->slots + offset, message->length, &context);
    if (ret)
        return ret;
    ret = rpma_recv(server->session.conn, responses->mr, offset, MESSAGE_SIZE, (const void *)message->slot);
    if (ret)
        return -report(td, EIO, "cannot post a receive: %s", reason(ret));
    return send_response(td, server, context);
}

static int take_requests(struct thread_data *td, struct server *server)
{
    struct responses *responses = server->kind_data;
    int ret = 0;
    while (ret == 0 && responses->taken < responses->arrived &&
            responses->posted - responses->sent < server->max_messages)
        ret = take_request(td, server, &responses->requests[responses->taken++ % server->max_messages]);
    return ret;
}

int responses_serve(struct thread_data *td, struct server *server)
{
    struct responses *responses = server->kind_data;
    struct ibv_wc wc;
    const int ret = session_next_completion(&server->session, &wc);
    if (ret == 0)
        return 0;
    if (ret < 0 || (wc.status == IBV_WC_WR_FLUSH_ERR || wc.status == IBV_WC_RETRY_EXC_ERR))
        return -report(td, ECONNRESET, "the client disconnected before it was done");
    if (wc.status != IBV_WC_SUCCESS)
        return -report(td, EIO, "message failed: %s", ibv_wc_status_str(wc.status));
    if (wc.opcode == IBV_WC_RECV)
        responses->requests[responses->arrived++ % server->max_messages] =
                (struct message){.slot = (size_t)wc.wr_id, .length = wc.byte_len};
    else
        ++responses->sent;
    return take_requests(td, server);
}

void responses_end(struct server *server)
{
    struct responses *responses = server->kind_data;
    if (!responses)
        return;
    (void)rpma_mr_dereg(&responses->mr);
    free(responses->requests);
    free(responses->slots);
    free(responses);
    server->kind_data = NULL;
}
