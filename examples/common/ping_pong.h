// SPDX-License-Identifier: BSD-3-Clause
#ifndef EXAMPLES_PING_PONG_H
#define EXAMPLES_PING_PONG_H 1

#include <stdint.h>
#include <time.h>

#include <librpma.h>

#include "arguments.h"
#include "mailbox.h"
#include "variant.h"

/*
 * The game of 08, 12, 13 and their variants: the client sends a number, the server replies with the next one, and so
 * on. A message is an 8-byte unsigned number in the byte order of the machine. PING_PONG_END is the last message.
 */
#define PING_PONG_END UINT64_MAX

enum {
    PING_PONG_MESSAGE_SIZE = sizeof(uint64_t)
};

#define PING_PONG_OPERANDS "<seed> <rounds> [<sleep-usec>]"
#define PING_PONG_SEED_HELP "  <seed>           the first number to send\n"
#define PING_PONG_SLEEP_HELP "  <sleep-usec>     pause after every round, in microseconds (default 0)\n"

enum {
    PING_PONG_MIN_OPERANDS = 2,
    PING_PONG_MAX_OPERANDS = 3
};

/* The examples differ in the meaning of <rounds> and in the side that disconnects. */
enum ping_pong_rules {
    PING_PONG_END_IS_A_ROUND, /* the final message counts as a round; the client disconnects */
    PING_PONG_SERVER_CLOSES   /* <rounds> numbers are sent; the server disconnects after the final message */
};

#define PING_PONG_ROUNDS_HELP "  <rounds>         messages to send; the last one ends the game (0: unlimited)\n"
#define PING_PONG_NUMBERS_HELP "  <rounds>         numbers to send, at least 1\n"

struct ping_pong_plan {
    enum ping_pong_rules rules;
    uint64_t seed;
    uint64_t numbers; /* numbers to send; UINT64_MAX means until interrupted */
    struct timespec pause;
};

/* Parses the operands. Exits if they are invalid. */
struct ping_pong_plan ping_pong_parse(const struct arguments *args, enum ping_pong_rules rules);

/* Main functions of clients, and of servers of one client, with the configuration of their connections. Return an exit
 * status. */
int ping_pong_client(int argc, char **argv, enum ping_pong_rules rules, configure_conn *configure);
int ping_pong_server(int argc, char **argv, configure_conn *configure);

/*
 * Server side of a whole game, from listening to disconnecting. cfg and srq may be NULL; cfg must contain srq. Returns
 * a status.
 */
int ping_pong_serve(
        const struct arguments *args, struct rpma_peer *peer, const struct rpma_conn_cfg *cfg, struct rpma_srq *srq);

/*
 * The exchange on an established connection: the whole game of the client, or the server's part without disconnecting.
 * The server must have called mailbox_expect_first(). Return a status.
 */
int ping_pong_play_on(const struct arguments *args, const struct ping_pong_plan *plan, struct mailbox *mailbox,
        struct rpma_conn *conn);
int ping_pong_answer(const struct arguments *args, struct mailbox *mailbox, struct rpma_conn *conn);

/* Reads the number in a message. Fails if `size` is wrong. Returns a status. */
int ping_pong_number(const char *message, size_t size, uint64_t *number);

#endif /* EXAMPLES_PING_PONG_H */
