// SPDX-License-Identifier: BSD-3-Clause
#include "players.h"

#include <err.h>
#include <pthread.h>
#include <string.h>

#include "connection.h"
#include "ping_pong.h"
#include "status.h"

enum {
    DEFAULT_PLAYERS = 4,
    MAX_PLAYERS = 10,
    PLAYERS_OPERAND = 3,
    SEED_DISTANCE = 1000 /* from the first number of one player to that of the next */
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
    struct rpma_peer *peer;
    struct ping_pong_plan plan;
    pthread_t thread;
    int status;
};

int players_parse(const struct arguments *args, int index)
{
    const uint64_t count = arguments_number(args, index, "<players>", DEFAULT_PLAYERS);
    if (count == 0 || count > MAX_PLAYERS)
        usage_error("<players>: choose from 1 to %d", MAX_PLAYERS);
    return (int)count;
}

static void *play(void *context)
{
    struct player *player = context;
    player->status = ping_pong_play(player->args, &player->plan, player->peer, NULL);
    return NULL;
}

static int play_all(const struct arguments *args, struct rpma_peer *peer, const struct ping_pong_plan *plan, int count)
{
    struct player players[MAX_PLAYERS];
    int started = 0;
    int status = STATUS_OK;

    for (; started < count; ++started) {
        struct player *player = &players[started];
        *player = (struct player){.args = args, .peer = peer, .plan = *plan};
        player->plan.seed += (uint64_t)started * SEED_DISTANCE;
        const int error = pthread_create(&player->thread, NULL, play, player);
        if (error != 0) {
            warnx("pthread_create: %s", strerror(error));
            status = STATUS_FAILED;
            break;
        }
    }
    for (int i = 0; i < started; ++i) {
        (void)pthread_join(players[i].thread, NULL);
        status |= players[i].status;
    }
    return status;
}

int players_main(int argc, char **argv)
{
    const struct arguments args = arguments_parse(argc, argv, &program);
    const int count = players_parse(&args, PLAYERS_OPERAND);
    const struct ping_pong_plan plan = ping_pong_parse(&args, PING_PONG_SERVER_CLOSES);
    struct rpma_peer *peer = NULL;

    int status = open_peer(&args, RPMA_UTIL_IBV_CONTEXT_REMOTE, &peer);
    if (status == STATUS_OK)
        status = play_all(&args, peer, &plan, count);

    status |= check("rpma_peer_delete", rpma_peer_delete(&peer));
    return status;
}
