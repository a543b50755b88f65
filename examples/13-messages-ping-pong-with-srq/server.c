// SPDX-License-Identifier: BSD-3-Clause
#include <err.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include <librpma.h>

#include "arguments.h"
#include "completion.h"
#include "connection.h"
#include "memory.h"
#include "ping_pong.h"
#include "region.h"
#include "service.h"
#include "status.h"

enum {
    LISTEN_S = 5,
    REPLIES_OFFSET = MAX_CLIENTS * PING_PONG_MESSAGE_SIZE,
    MEMORY_SIZE = 2 * REPLIES_OFFSET
};

static const char send_name[] = "rpma_send";

static const struct program program = {
        .purpose = "Answers the numbers of many clients at a time, receiving all of them through one receive queue.",
        .operands = "[<timeout-s>]",
        .operands_help = "  <timeout-s>      how long to listen for another client (default: that of --timeout)\n",
        .max_operands = 1,
        .timeout_s = LISTEN_S,
        .retry_s = RETRY_NOT_OFFERED,
        .has_many_clients = true,
};

/*
 * A slot for each message that can arrive, and one for the reply to each client. The slot of a message does not
 * identify its sender.
 */
struct game {
    struct service service;
    struct memory memory;
    struct rpma_mr_local *mr;
    struct rpma_srq *srq;
    struct rpma_cq *rcq;
    struct watch messages;
};

static int parse_listen_s(const struct arguments *args)
{
    const uint64_t listen_s = arguments_number(args, 0, "<timeout-s>", (uint64_t)args->timeout_s);
    if (arguments_operand(args, 0) && (listen_s == 0 || listen_s > INT32_MAX / 1000))
        usage_error("<timeout-s>: %" PRIu64 " is out of range", listen_s);
    return (int)listen_s;
}

static int expect_message(struct game *game, char *slot)
{
    const size_t offset = (size_t)(slot - game->memory.base);
    return check("rpma_srq_recv", rpma_srq_recv(game->srq, game->mr, offset, PING_PONG_MESSAGE_SIZE, slot));
}

static int greet(struct client *client)
{
    printf("The client #%d has been connected.\n", client->slot);
    return STATUS_OK;
}

/* Sends must complete before the next reply, because an unpolled completion keeps its send queue entry. */
static int finish_reply(struct client *client)
{
    if (!client->is_sending)
        return STATUS_OK;
    client->is_sending = false;
    return wait_for_last_send(client->service->args, client->conn, NULL, send_name);
}

static int reply(struct game *game, struct client *client, uint32_t qp_num, uint64_t number)
{
    int status = finish_reply(client); /* the slot of the reply must be free; the client has received that reply, as its
                                          new message shows */
    if (status != STATUS_OK)
        return status;
    if (number == PING_PONG_END)
        return service_dismiss(client);

    printf("[server] value received: %" PRIu64 " from the connection [qp#%" PRIu32 "]\n", number, qp_num);
    const uint64_t answer = number + 1;
    const size_t offset = REPLIES_OFFSET + (size_t)client->slot * PING_PONG_MESSAGE_SIZE;
    memcpy(game->memory.base + offset, &answer, sizeof(answer));
    status = check(send_name,
            rpma_send(client->conn, game->mr, offset, PING_PONG_MESSAGE_SIZE, RPMA_F_COMPLETION_ALWAYS, send_name));
    if (status == STATUS_OK) {
        client->is_sending = true;
        printf("[server] value sent: %" PRIu64 " to the connection [qp#%" PRIu32 "]\n", answer, qp_num);
    }
    return status;
}

static struct client *find_sender(struct game *game, uint32_t qp_num)
{
    for (int i = 0; i < MAX_CLIENTS; ++i) {
        struct client *client = &game->service.clients[i];
        uint32_t own = 0;
        if (client->conn && rpma_conn_get_qp_num(client->conn, &own) == 0 && own == qp_num)
            return client;
    }
    return NULL;
}

/* An error of one client must not stop the game with the others. */
static int handle_message(struct game *game, const struct ibv_wc *wc)
{
    char *slot = (char *)(uintptr_t)wc->wr_id;
    struct client *client = find_sender(game, wc->qp_num);
    uint64_t number = 0;
    int client_status = STATUS_FAILED;

    if (wc->status != IBV_WC_SUCCESS)
        warnx("rpma_srq_recv failed: %s", ibv_wc_status_str(wc->status));
    else
        client_status = ping_pong_number(slot, wc->byte_len, &number);

    const int status = expect_message(game, slot);
    if (!client || client->is_done)
        return status;
    if (client_status == STATUS_OK)
        client_status = reply(game, client, wc->qp_num, number);
    if (client_status != STATUS_OK)
        service_give_up(client);
    return status;
}

static int handle_messages(void *context)
{
    struct game *game = context;
    struct ibv_wc wcs[MAX_CLIENTS];
    int count = 0;

    int ret = rpma_cq_wait(game->rcq);
    if (ret == 0)
        ret = rpma_cq_get_wc(game->rcq, MAX_CLIENTS, wcs, &count);
    if (ret == RPMA_E_NO_COMPLETION)
        return STATUS_OK;

    int status = check("collecting completions", ret);
    for (int i = 0; i < count && status == STATUS_OK; ++i)
        status = handle_message(game, &wcs[i]);
    return status;
}

/* A client has at most one outstanding message, so receives for all clients are posted in advance. */
static int open_game(struct game *game, struct rpma_peer *peer)
{
    int fd = -1;

    int status = memory_allocate(&game->memory, MEMORY_SIZE);
    if (status == STATUS_OK)
        status = register_memory(peer, &game->memory, RPMA_MR_USAGE_SEND | RPMA_MR_USAGE_RECV, &game->mr);
    if (status == STATUS_OK)
        status = check("rpma_srq_new", rpma_srq_new(peer, NULL, &game->srq));
    if (status == STATUS_OK)
        status = check("rpma_srq_get_rcq", rpma_srq_get_rcq(game->srq, &game->rcq));
    for (int i = 0; i < MAX_CLIENTS && status == STATUS_OK; ++i)
        status = expect_message(game, game->memory.base + (ptrdiff_t)i * PING_PONG_MESSAGE_SIZE);
    if (status == STATUS_OK)
        status = service_open(&game->service);
    if (status == STATUS_OK)
        status = check("rpma_cq_get_fd", rpma_cq_get_fd(game->rcq, &fd));
    return status ? status : event_loop_watch(&game->service.loop, &game->messages, fd);
}

static int close_game(struct game *game)
{
    int status = service_close(&game->service);
    status |= check("rpma_srq_delete", rpma_srq_delete(&game->srq));
    status |= check("rpma_mr_dereg", rpma_mr_dereg(&game->mr));
    memory_close(&game->memory);
    return status;
}

int main(int argc, char **argv)
{
    static const struct service_handlers handlers = {.established = greet};
    const struct arguments args = arguments_parse(argc, argv, &program);
    struct rpma_peer *peer = NULL;
    struct rpma_conn_cfg *cfg = NULL;
    struct game game = {.messages = {.handle = handle_messages, .context = &game}};
    game.service = (struct service){
            .args = &args, .handlers = &handlers, .listen_s = parse_listen_s(&args), .loop = {.epoll_fd = -1}};

    int status = open_peer(&args, RPMA_UTIL_IBV_CONTEXT_LOCAL, &peer);
    if (status == STATUS_OK)
        status = open_game(&game, peer);
    if (status == STATUS_OK)
        status = check("rpma_conn_cfg_new", rpma_conn_cfg_new(&cfg));
    if (status == STATUS_OK)
        status = check("rpma_conn_cfg_set_srq", rpma_conn_cfg_set_srq(cfg, game.srq));
    if (status == STATUS_OK) {
        game.service.peer = peer;
        game.service.cfg = cfg;
        status = service_run(&game.service);
    }

    status |= check("rpma_conn_cfg_delete", rpma_conn_cfg_delete(&cfg));
    status |= close_game(&game);
    status |= check("rpma_peer_delete", rpma_peer_delete(&peer));
    return status;
}
