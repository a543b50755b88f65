// SPDX-License-Identifier: BSD-3-Clause
#include <err.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <librpma.h>

#include "arguments.h"
#include "connection.h"
#include "mailbox.h"
#include "ping_pong.h"
#include "players.h"
#include "status.h"

static const struct program program = {
        .purpose = "Answers the numbers of several clients at a time, each in a thread of its own.",
        .operands = PLAYERS_SERVER_OPERANDS,
        .operands_help = PLAYERS_SERVER_HELP,
        .max_operands = 1,
        .retry_s = RETRY_NOT_OFFERED,
};

/* One client. Only its thread uses it, so no locks are needed. */
struct worker {
    const struct arguments *args;
    struct rpma_conn *conn;
    struct mailbox mailbox;
    pthread_t thread;
    int status;
};

static void *serve(void *context)
{
    struct worker *worker = context;

    int status = wait_until_established(worker->args, worker->conn);
    if (status == STATUS_OK)
        status = ping_pong_answer(worker->args, &worker->mailbox, worker->conn);
    if (status == STATUS_OK)
        status = disconnect(worker->args, worker->conn);

    status |= check("rpma_conn_delete", rpma_conn_delete(&worker->conn));
    status |= mailbox_close(&worker->mailbox);
    worker->status = status;
    return NULL;
}

/* The thread waits for the connection to be established, so that the next client can connect at the same time. */
static int accept_client(struct worker *worker, struct rpma_peer *peer, struct rpma_ep *ep)
{
    struct rpma_conn_req *req = NULL;

    int status = take_request(worker->args, ep, NULL, &req);
    if (status == STATUS_OK)
        status = mailbox_open(&worker->mailbox, peer, PING_PONG_MESSAGE_SIZE, NULL);
    if (status == STATUS_OK) /* the client may send as soon as it is connected */
        status = mailbox_expect_first(&worker->mailbox, req);
    if (status == STATUS_OK)
        status = check("rpma_conn_req_connect", rpma_conn_req_connect(&req, NULL, &worker->conn));
    if (status == STATUS_OK) {
        const int error = pthread_create(&worker->thread, NULL, serve, worker);
        if (error == 0)
            return STATUS_OK;
        warnx("pthread_create: %s", strerror(error));
        status = STATUS_FAILED;
    }

    status |= check("rpma_conn_req_delete", rpma_conn_req_delete(&req));
    status |= check("rpma_conn_delete", rpma_conn_delete(&worker->conn));
    status |= mailbox_close(&worker->mailbox);
    return status;
}

static int serve_all(const struct arguments *args, struct rpma_peer *peer, int count)
{
    struct worker *workers = calloc((size_t)count, sizeof(*workers));
    struct rpma_ep *ep = NULL;
    int started = 0;

    if (!workers) {
        warn("calloc");
        return STATUS_FAILED;
    }
    int status = listen_for_clients(args, peer, &ep);
    while (status == STATUS_OK && started < count) {
        workers[started].args = args;
        status = accept_client(&workers[started], peer, ep);
        if (status == STATUS_OK)
            ++started;
    }

    status |= check("rpma_ep_shutdown", rpma_ep_shutdown(&ep));
    for (int i = 0; i < started; ++i) {
        (void)pthread_join(workers[i].thread, NULL);
        status |= workers[i].status;
    }
    free(workers);
    if (status == STATUS_OK)
        printf("Clients served: %d\n", started);
    return status;
}

int main(int argc, char **argv)
{
    const struct arguments args = arguments_parse(argc, argv, &program);
    const int count = players_parse(&args, 0);
    struct rpma_peer *peer = NULL;

    int status = open_peer(&args, RPMA_UTIL_IBV_CONTEXT_LOCAL, &peer);
    if (status == STATUS_OK)
        status = serve_all(&args, peer, count);

    status |= check("rpma_peer_delete", rpma_peer_delete(&peer)); /* deleted last, after all objects created from it */
    return status;
}
