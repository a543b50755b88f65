// SPDX-License-Identifier: BSD-3-Clause
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <librpma.h>

#include "arguments.h"
#include "completion.h"
#include "connection.h"
#include "event_loop.h"
#include "mailbox.h"
#include "ping_pong.h"
#include "players.h"
#include "service.h"
#include "status.h"

enum {
    RCQ_SIZE = 4
};

static const struct program program = {
        .purpose = "Answers the numbers of several clients at a time, all of them in one thread that waits in epoll.",
        .operands = PLAYERS_SERVER_OPERANDS,
        .operands_help = PLAYERS_SERVER_HELP,
        .max_operands = 1,
        .retry_s = RETRY_NOT_OFFERED,
};

/* The game with the client in one slot. While client->is_sending is set, the device owns the outgoing message. */
struct game {
    struct mailbox mailbox;
    uint64_t number;
    bool is_asked; /* `number` must be answered */
};

struct games {
    struct rpma_peer *peer;
    struct game games[MAX_CLIENTS];
};

static struct game *game_of(const struct client *client)
{
    struct games *games = client->service->context;
    return &games->games[client->slot];
}

/* The client may send as soon as it is connected, so the first receive must be posted before. */
static int prepare(struct client *client, struct rpma_conn_req *req)
{
    const struct games *games = client->service->context;
    struct game *game = game_of(client);

    int status = mailbox_close(&game->mailbox); /* state of an earlier client in this slot */
    *game = (struct game){0};
    if (status == STATUS_OK)
        status = mailbox_open(&game->mailbox, games->peer, PING_PONG_MESSAGE_SIZE, NULL);
    return status ? status : mailbox_expect_first(&game->mailbox, req);
}

/* Both completion queues of the connection share one descriptor. */
static int watch_completions(struct client *client)
{
    int fd = -1;
    const int status = check("rpma_conn_get_compl_fd", rpma_conn_get_compl_fd(client->conn, &fd));
    return status ? status : event_loop_watch(&client->service->loop, &client->completions, fd);
}

/* The next number may arrive before the completion of the last reply, which frees the message buffer. */
static int answer(struct client *client)
{
    struct game *game = game_of(client);
    if (!game->is_asked || client->is_sending)
        return STATUS_OK;

    const uint64_t number = game->number + 1;
    memcpy(mailbox_outgoing(&game->mailbox), &number, sizeof(number));
    game->is_asked = false;
    client->is_sending = true;
    printf("Value sent: %" PRIu64 "\n", number);
    return mailbox_send(&game->mailbox, client->conn, sizeof(number));
}

static int handle_message(struct client *client, const struct ibv_wc *wc)
{
    struct game *game = game_of(client);

    int status = ping_pong_number(mailbox_incoming(&game->mailbox), wc->byte_len, &game->number);
    if (status != STATUS_OK)
        return status;
    if (game->number == PING_PONG_END)
        return service_dismiss(client);

    printf("Value received: %" PRIu64 "\n", game->number);
    game->is_asked = true;
    status = mailbox_expect(
            &game->mailbox, client->conn); /* posted before the reply, after which the next number may arrive */
    return status ? status : answer(client);
}

static int handle_completion(struct client *client, const struct ibv_wc *wc, bool is_received)
{
    const int status = check_completion(wc);
    if (status != STATUS_OK)
        return status;
    if (is_received)
        return handle_message(client, wc);
    client->is_sending = false;
    return answer(client);
}

/* Takes the event, and polls all completions of its queue, because the queue is re-armed for new ones only. */
static int collect(struct client *client)
{
    struct rpma_cq *cq = NULL;
    bool is_rcq = false;

    int ret = rpma_conn_wait(client->conn, 0, &cq, &is_rcq);
    if (ret == RPMA_E_NO_COMPLETION)
        return STATUS_OK;

    int status = check("rpma_conn_wait", ret);
    while (status == STATUS_OK && !client->is_done) { /* the client may disconnect with outstanding operations */
        struct ibv_wc wc;
        ret = rpma_cq_get_wc(cq, 1, &wc, NULL);
        if (ret == RPMA_E_NO_COMPLETION)
            return STATUS_OK;
        status = check("rpma_cq_get_wc", ret);
        if (status == STATUS_OK)
            status = handle_completion(client, &wc, is_rcq);
    }
    return status;
}

static int make_cfg(struct rpma_conn_cfg **cfg)
{
    int status = check("rpma_conn_cfg_new", rpma_conn_cfg_new(cfg));
    if (status == STATUS_OK)
        status = check("rpma_conn_cfg_set_rcq_size", rpma_conn_cfg_set_rcq_size(*cfg, RCQ_SIZE));
    if (status == STATUS_OK)
        status = check("rpma_conn_cfg_set_compl_channel", rpma_conn_cfg_set_compl_channel(*cfg, true));
    return status;
}

static int serve(const struct arguments *args, struct rpma_peer *peer, const struct rpma_conn_cfg *cfg)
{
    static const struct service_handlers handlers = {
            .requested = prepare, .established = watch_completions, .completed = collect};
    struct games games = {.peer = peer};
    struct service service = {.args = args,
            .peer = peer,
            .cfg = cfg,
            .handlers = &handlers,
            .context = &games,
            .loop = {.epoll_fd = -1},
            .listen_s = args->timeout_s};

    int status = service_open(&service);
    if (status == STATUS_OK)
        status = service_run(&service);
    if (status == STATUS_OK)
        printf("Clients served: %d\n", service.accepted_count);

    status |= service_close(&service);
    for (int i = 0; i < MAX_CLIENTS; ++i)
        status |= mailbox_close(&games.games[i].mailbox);
    return status;
}

int main(int argc, char **argv)
{
    struct arguments args = arguments_parse(argc, argv, &program);
    struct rpma_peer *peer = NULL;
    struct rpma_conn_cfg *cfg = NULL;

    args.client_count = players_parse(&args, 0);
    int status = open_peer(&args, RPMA_UTIL_IBV_CONTEXT_LOCAL, &peer);
    if (status == STATUS_OK)
        status = make_cfg(&cfg);
    if (status == STATUS_OK)
        status = serve(&args, peer, cfg);

    status |= check("rpma_conn_cfg_delete", rpma_conn_cfg_delete(&cfg));
    status |= check("rpma_peer_delete", rpma_peer_delete(&peer));
    return status;
}
