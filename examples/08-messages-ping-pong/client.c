// SPDX-License-Identifier: BSD-3-Clause
#include <err.h>
#include <inttypes.h>
#include <stdio.h>
#include <time.h>

#include <librpma.h>

#include "arguments.h"
#include "connection.h"
#include "message.h"
#include "status.h"

static const struct program program = {
        .purpose = "Sends a number, which the server answers with the next one, and goes on from there.",
        .operands = "<seed> <rounds> [<sleep-usec>]",
        .operands_help = "  <seed>           the first number to send\n"
                         "  <rounds>         messages to send, the last of which says that this was all; 0: no end\n"
                         "  <sleep-usec>     pause after every round, in microseconds (default 0)\n",
        .min_operands = 2,
        .max_operands = 3,
        .timeout_s = 30,
};

struct plan {
    uint64_t seed;
    uint64_t rounds;
    struct timespec pause;
};

static struct plan parse_plan(const struct arguments *args)
{
    const uint64_t pause_us = arguments_number(args, 2, "<sleep-usec>", 0);
    const struct plan plan = {
            .seed = arguments_number(args, 0, "<seed>", 0),
            .rounds = arguments_number(args, 1, "<rounds>", 0),
            .pause = {.tv_sec = (time_t)(pause_us / 1000000), .tv_nsec = (long)(pause_us % 1000000) * 1000},
    };
    const uint64_t exchanges = plan.rounds == 0 ? 0 : plan.rounds - 1;
    if (plan.seed >= MESSAGE_DONE - exchanges)
        usage_error("<seed>: %" PRIu64 " is too large, counting on from there reaches the number that means the end",
                plan.seed);
    return plan;
}

static int check_answer(uint64_t received, uint64_t expected)
{
    if (received == expected)
        return STATUS_OK;

    warnx("the server answered %" PRIu64 " instead of %" PRIu64, received, expected);
    return STATUS_FAILED;
}

static int play_round(const struct arguments *args, struct mailbox *mailbox, struct rpma_conn *conn, uint64_t *number)
{
    int status = mailbox_expect(mailbox, conn);
    if (status == STATUS_OK)
        status = mailbox_send(mailbox, conn, *number);
    if (status == STATUS_OK) {
        printf("Value sent: %" PRIu64 "\n", *number);
        status = mailbox_wait(args, conn, MESSAGE_SENT | MESSAGE_RECEIVED);
    }
    if (status != STATUS_OK)
        return status;

    const uint64_t expected = *number + 1;
    *number = mailbox_received(mailbox);
    printf("Value received: %" PRIu64 "\n", *number);
    return check_answer(*number, expected);
}

static int play(const struct arguments *args, const struct plan *plan, struct mailbox *mailbox, struct rpma_conn *conn)
{
    uint64_t number = plan->seed;
    int status = STATUS_OK;

    /* 0 rounds wrap round to more than anybody waits for */
    for (uint64_t left = plan->rounds - 1; left > 0 && status == STATUS_OK; --left) {
        status = play_round(args, mailbox, conn, &number);
        (void)nanosleep(&plan->pause, NULL);
    }
    if (status == STATUS_OK)
        status = mailbox_send(mailbox, conn, MESSAGE_DONE);
    return status ? status : mailbox_wait(args, conn, MESSAGE_SENT); /* a disconnection would overtake it */
}

int main(int argc, char **argv)
{
    const struct arguments args = arguments_parse(argc, argv, &program);
    const struct plan plan = parse_plan(&args);
    struct rpma_peer *peer = NULL;
    struct mailbox mailbox = {0};
    struct rpma_conn *conn = NULL;

    int status = open_peer(&args, RPMA_UTIL_IBV_CONTEXT_REMOTE, &peer);
    if (status == STATUS_OK)
        status = mailbox_open(&mailbox, peer);
    if (status == STATUS_OK)
        status = connect_to_server(&args, peer, NULL, &conn);
    if (status == STATUS_OK)
        status = play(&args, &plan, &mailbox, conn);
    if (status == STATUS_OK)
        status = disconnect(&args, conn);

    status |= check("rpma_conn_delete", rpma_conn_delete(&conn));
    status |= mailbox_close(&mailbox);
    status |= check("rpma_peer_delete", rpma_peer_delete(&peer));
    return status;
}
