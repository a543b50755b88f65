// SPDX-License-Identifier: BSD-3-Clause
#include "players.h"

#include <err.h>
#include <inttypes.h>
#include <pthread.h>
#include <string.h>

#include "connection.h"
#include "mailbox.h"
#include "ping_pong.h"
#include "status.h"

enum {
    DEFAULT_PLAYERS = 4,
    MAX_PLAYERS = 10,
    PLAYERS_OPERAND = 3,
    SEED_DISTANCE = 1000 /* distance of the first numbers of the players */
};

static const struct program program = {
        .purpose = "Plays several games of ping-pong with the server at a time, each in a thread of its own.",
        .operands = "<seed> <rounds> [<sleep-usec> [<players>]]",
        .operands_help = PING_PONG_SEED_HELP PING_PONG_NUMBERS_HELP PING_PONG_SLEEP_HELP
        "  <players>        games to play at a time, 1 to 10 (default 4)\n",
        .min_operands = PING_PONG_MIN_OPERANDS,
        .max_operands = PLAYERS_OPERAND + 1,
        .timeout_s = 30,
};

struct player {
    const struct arguments *args;
    struct ping_pong_plan plan;
    struct mailbox mailbox;
    struct rpma_conn *conn;
    pthread_t thread;
    int status;
};

int players_parse(const struct arguments *args, int index)
{
    const uint64_t count = arguments_number(args, index, "<players>", DEFAULT_PLAYERS);
    if (count == 0 || count > MAX_PLAYERS)
        usage_error("<players>: must be from 1 to %d", MAX_PLAYERS);
    return (int)count;
}

static void *play(void *context)
{
    struct player *player = context;
    player->status = ping_pong_play_on(player->args, &player->plan, &player->mailbox, player->conn);
    return NULL;
}

/* Connects before any thread starts, so that a missing server is reported once. */
static int start(struct player *player, struct rpma_peer *peer)
{
    int status = mailbox_open(&player->mailbox, peer, PING_PONG_MESSAGE_SIZE, NULL);
    if (status == STATUS_OK)
        status = connect_to_server(player->args, peer, NULL, NULL, &player->conn);
    if (status != STATUS_OK)
        return status;

    const int error = pthread_create(&player->thread, NULL, play, player);
    if (error == 0)
        return STATUS_OK;
    warnx("pthread_create: %s", strerror(error));
    return STATUS_FAILED;
}

static int play_all(const struct arguments *args, struct rpma_peer *peer, const struct ping_pong_plan *plan, int count)
{
    struct player players[MAX_PLAYERS] = {0};
    int started = 0;
    int status = STATUS_OK;

    for (int i = 0; i < count && status == STATUS_OK; ++i) {
        players[i] = (struct player){.args = args, .plan = *plan};
        players[i].plan.seed += (uint64_t)i * SEED_DISTANCE;
        status = start(&players[i], peer);
        if (status == STATUS_OK)
            ++started;
    }
    for (int i = 0; i < count; ++i) {
        if (i < started)
            (void)pthread_join(players[i].thread, NULL);
        status |= players[i].status;
        status |= check("rpma_conn_delete", rpma_conn_delete(&players[i].conn));
        status |= mailbox_close(&players[i].mailbox);
    }
    return status;
}

int players_main(int argc, char **argv)
{
    const struct arguments args = arguments_parse(argc, argv, &program);
    const int count = players_parse(&args, PLAYERS_OPERAND);
    const struct ping_pong_plan plan = ping_pong_parse(&args, PING_PONG_SERVER_CLOSES);
    struct rpma_peer *peer = NULL;

    if (PING_PONG_END - plan.numbers - plan.seed <= (uint64_t)(count - 1) * SEED_DISTANCE)
        usage_error(
                "<seed>: %" PRIu64 " is too large for %d players with seeds %d apart", plan.seed, count, SEED_DISTANCE);
    int status = open_peer(&args, RPMA_UTIL_IBV_CONTEXT_REMOTE, &peer);
    if (status == STATUS_OK)
        status = play_all(&args, peer, &plan, count);

    status |= check("rpma_peer_delete", rpma_peer_delete(&peer));
    return status;
}
