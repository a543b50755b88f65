// SPDX-License-Identifier: BSD-3-Clause
#include "ping_pong.h"

#include <err.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "connection.h"
#include "mailbox.h"
#include "status.h"

struct ping_pong_plan ping_pong_parse(const struct arguments *args, enum ping_pong_rules rules)
{
    const uint64_t pause_us = arguments_number(args, 2, "<sleep-usec>", 0);
    const uint64_t rounds = arguments_number(args, 1, "<rounds>", 0);
    struct ping_pong_plan plan = {
            .rules = rules,
            .seed = arguments_number(args, 0, "<seed>", 0),
            .pause = {.tv_sec = (time_t)(pause_us / 1000000), .tv_nsec = (long)(pause_us % 1000000) * 1000},
    };

    if (rules == PING_PONG_SERVER_CLOSES && rounds == 0)
        usage_error("<rounds>: must be at least 1");
    /* the number would wrap with 0 rounds */
    plan.numbers = rules == PING_PONG_SERVER_CLOSES ? rounds : rounds - 1;

    const uint64_t counted = plan.numbers == UINT64_MAX ? 0 : plan.numbers;
    if (plan.seed >= PING_PONG_END - counted)
        usage_error("<seed>: %" PRIu64 " is too large: the numbers from there reach the end mark", plan.seed);
    return plan;
}

int ping_pong_number(const char *message, size_t size, uint64_t *number)
{
    if (size != PING_PONG_MESSAGE_SIZE) {
        warnx("the peer sent a message of %zu bytes instead of %d (does it run another example?)", size,
                PING_PONG_MESSAGE_SIZE);
        return STATUS_FAILED;
    }
    memcpy(number, message, sizeof(*number));
    return STATUS_OK;
}

static int send_number(struct mailbox *mailbox, struct rpma_conn *conn, uint64_t number)
{
    memcpy(mailbox_outgoing(mailbox), &number, sizeof(number));
    return mailbox_send(mailbox, conn, sizeof(number));
}

static int wait_for_number(const struct arguments *args, struct mailbox *mailbox, struct rpma_conn *conn,
        unsigned progress, uint64_t *number)
{
    const int status = mailbox_wait(args, mailbox, conn, progress);
    return status ? status : ping_pong_number(mailbox_incoming(mailbox), mailbox->received_size, number);
}

static int play_round(const struct arguments *args, struct mailbox *mailbox, struct rpma_conn *conn, uint64_t *number)
{
    const uint64_t expected = *number + 1;

    int status = mailbox_expect(mailbox, conn);
    if (status == STATUS_OK)
        status = send_number(mailbox, conn, *number);
    if (status == STATUS_OK) {
        printf("Value sent: %" PRIu64 "\n", *number);
        status = wait_for_number(args, mailbox, conn, MESSAGE_SENT | MESSAGE_RECEIVED, number);
    }
    if (status != STATUS_OK)
        return status;

    printf("Value received: %" PRIu64 "\n", *number);
    if (*number == expected)
        return STATUS_OK;
    warnx("unexpected response of the server: %" PRIu64 " instead of %" PRIu64, *number, expected);
    return STATUS_FAILED;
}

int ping_pong_play_on(const struct arguments *args, const struct ping_pong_plan *plan, struct mailbox *mailbox,
        struct rpma_conn *conn)
{
    uint64_t number = plan->seed;
    int status = STATUS_OK;

    for (uint64_t left = plan->numbers; left > 0 && status == STATUS_OK; --left) {
        status = play_round(args, mailbox, conn, &number);
        (void)nanosleep(&plan->pause, NULL);
    }
    if (status == STATUS_OK)
        status = send_number(mailbox, conn, PING_PONG_END);
    if (status == STATUS_OK)
        status = mailbox_wait(args, mailbox, conn, MESSAGE_SENT);
    if (status != STATUS_OK)
        return status;
    return plan->rules == PING_PONG_SERVER_CLOSES ? wait_for_disconnect(args, conn) : disconnect(args, conn);
}

static int play_game(
        const struct arguments *args, struct rpma_peer *peer, const struct rpma_conn_cfg *cfg, const void *context)
{
    const struct ping_pong_plan *plan = context;
    struct mailbox mailbox = {0};
    struct rpma_conn *conn = NULL;

    int status = mailbox_open(&mailbox, peer, PING_PONG_MESSAGE_SIZE, NULL);
    if (status == STATUS_OK)
        status = connect_to_server(args, peer, cfg, NULL, &conn);
    if (status == STATUS_OK)
        status = ping_pong_play_on(args, plan, &mailbox, conn);

    status |= check("rpma_conn_delete", rpma_conn_delete(&conn));
    status |= mailbox_close(&mailbox);
    return status;
}

static int answer(struct mailbox *mailbox, struct rpma_conn *conn, uint64_t number)
{
    int status = mailbox_expect(mailbox, conn);
    if (status == STATUS_OK)
        status = send_number(mailbox, conn, number);
    if (status == STATUS_OK)
        printf("Value sent: %" PRIu64 "\n", number);
    return status;
}

int ping_pong_answer(const struct arguments *args, struct mailbox *mailbox, struct rpma_conn *conn)
{
    uint64_t number = 0;
    int status = wait_for_number(args, mailbox, conn, MESSAGE_RECEIVED, &number);

    while (status == STATUS_OK && number != PING_PONG_END) {
        printf("Value received: %" PRIu64 "\n", number);
        status = answer(mailbox, conn, number + 1);
        if (status == STATUS_OK)
            status = wait_for_number(args, mailbox, conn, MESSAGE_SENT | MESSAGE_RECEIVED, &number);
    }
    return status;
}

int ping_pong_serve(
        const struct arguments *args, struct rpma_peer *peer, const struct rpma_conn_cfg *cfg, struct rpma_srq *srq)
{
    struct mailbox mailbox = {0};
    struct rpma_conn *conn = NULL;

    int status = mailbox_open(&mailbox, peer, PING_PONG_MESSAGE_SIZE, srq);
    if (status ==
            STATUS_OK) /* the receive must be posted before, because the client may send as soon as it is connected */
        status = accept_one_client(args, peer, cfg, NULL, mailbox_inspect_request, &mailbox, &conn);
    if (status == STATUS_OK)
        status = ping_pong_answer(args, &mailbox, conn);
    if (status == STATUS_OK)
        status = disconnect(args, conn);

    status |= check("rpma_conn_delete", rpma_conn_delete(&conn));
    status |= mailbox_close(&mailbox);
    return status;
}

int ping_pong_client(int argc, char **argv, enum ping_pong_rules rules, configure_conn *configure)
{
    const struct program program = {
            .purpose = "Sends a number, gets the next one from the server, and continues with that.",
            .operands = PING_PONG_OPERANDS,
            .operands_help = rules == PING_PONG_SERVER_CLOSES
                                     ? PING_PONG_SEED_HELP PING_PONG_NUMBERS_HELP PING_PONG_SLEEP_HELP
                                     : PING_PONG_SEED_HELP PING_PONG_ROUNDS_HELP PING_PONG_SLEEP_HELP,
            .min_operands = PING_PONG_MIN_OPERANDS,
            .max_operands = PING_PONG_MAX_OPERANDS,
            .timeout_s = 30,
    };
    const struct arguments args = arguments_parse(argc, argv, &program);
    const struct ping_pong_plan plan = ping_pong_parse(&args, rules);
    return variant_run(&args, RPMA_UTIL_IBV_CONTEXT_REMOTE, configure, play_game, &plan);
}

static int serve_alone(
        const struct arguments *args, struct rpma_peer *peer, const struct rpma_conn_cfg *cfg, const void *context)
{
    (void)context;
    return ping_pong_serve(args, peer, cfg, NULL);
}

int ping_pong_server(int argc, char **argv, configure_conn *configure)
{
    static const struct program program = {
            .purpose = "Replies to each number of a client with the next one, until the client sends the last message.",
            .operands = "",
            .operands_help = "",
            .retry_s = RETRY_NOT_OFFERED,
    };
    const struct arguments args = arguments_parse(argc, argv, &program);
    return variant_run(&args, RPMA_UTIL_IBV_CONTEXT_LOCAL, configure, serve_alone, NULL);
}
