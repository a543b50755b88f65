// SPDX-License-Identifier: BSD-3-Clause
/* Connections that end because a process is killed. */
#include "support/memory_server.h"

#include <stdlib.h>

#define MEMORY_SIZE 65536
#define ALWAYS RPMA_F_COMPLETION_ALWAYS

enum kind {
    WRITES,
    READS,
    MESSAGES,
    KINDS
};

static int post_one(struct session *session, enum kind kind)
{
    struct rpma_mr_local *local = session->local.mr;
    if (kind == WRITES)
        return rpma_write(session->conn, session->remote, 0, local, 0, MEMORY_SIZE, ALWAYS, session);
    if (kind == READS)
        return rpma_read(session->conn, local, 0, session->remote, 0, MEMORY_SIZE, ALWAYS, session);
    return rpma_send(session->conn, local, 0, MEMORY_SIZE, ALWAYS, session);
}

/*
 * Returns the next completion of a connection whose server died. SoftRoCE treats 7 retries as unlimited, so outstanding
 * operations complete only when the end of the connection is acknowledged.
 */
static struct ibv_wc completion_after_death(struct session *session, bool *ended)
{
    struct ibv_wc wc;
    if (!getenv("RPMA_TEST_ENDLESS_RETRIES") || *ended)
        return next_completion(session->cq);
    if (rpma_cq_get_wc(session->cq, 1, &wc, NULL) == 0)
        return wc;
    expect_end(session->conn);
    CHECK_OK(rpma_conn_disconnect(session->conn));
    *ended = true;
    return next_completion(session->cq);
}

static void expect_posting_to_fail(struct session *session, enum kind kind, bool *ended)
{
    if (post_one(session, kind))
        return;
    struct ibv_wc wc = completion_after_death(session, ended);
    CHECK(wc.status == IBV_WC_RETRY_EXC_ERR || wc.status == IBV_WC_WR_FLUSH_ERR);
    CHECK_EQ(wc.wr_id, (uintptr_t)session);
}

/* Messages without a posted receive: they are being retried when the server dies. */
INTEGRATION_TEST(a_server_killed_amid_traffic_is_noticed)
{
    for (int round = 0; round < 2 * KINDS; ++round) {
        enum kind kind = (enum kind)(round % KINDS);
        struct rpma_conn_cfg *cfg = make_cfg(self, (struct queues){.sq = 16, .cq = 32});
        struct session session = open_session(self, MEMORY_SIZE, cfg);
        /* The server must have processed the client's last handshake message; before that, its death would be a
         * rejection. */
        ask(session.server->link, "fill 0 8 0");
        for (int i = 0; i < 8; ++i)
            CHECK_OK(post_one(&session, kind));
        kill_server(session.server);
        bool ended = false;
        for (int i = 0; i < 8; ++i) {
            struct ibv_wc wc = completion_after_death(&session, &ended);
            CHECK_EQ(wc.wr_id, (uintptr_t)&session);
            CHECK(kind != MESSAGES || wc.status != IBV_WC_SUCCESS);
        }
        expect_posting_to_fail(&session, kind, &ended);
        if (!ended)
            expect_end(session.conn);
        scope_drop(&self->scope, session.conn);
    }
}

/* Dies with a connection and a pending request. Its leftovers must not hinder the next server. */
static void serve_and_die(struct side *self, const char *argument)
{
    struct rpma_peer *peer = make_peer(self);
    struct rpma_ep *ep = make_ep(self, peer, NULL);
    accept_next(self, ep, NULL, NULL);
    next_request(self, ep, NULL);
    send_line(self->link, "both");
    expect_line(self->link, "never sent");
}

INTEGRATION_TEST(a_request_pending_at_a_killed_server_fails)
{
    struct server *server = start_server(self, "dying", "-");
    struct rpma_peer *peer = make_peer(self);
    struct rpma_conn *first = connect_to(self, peer, server->port, NULL);
    struct rpma_conn *second = connect_request(self, new_request(self, peer, server->port, NULL), NULL);
    expect_line(server->link, "both");
    kill_server(server);
    expect_end(first);
    enum rpma_conn_event event = next_event(second);
    CHECK(event == RPMA_CONN_UNREACHABLE || event == RPMA_CONN_REJECTED || event == RPMA_CONN_LOST);
}

/* Connects to the given port, and writes until an error ends the process. */
static void write_for_ever(struct side *self, const char *argument)
{
    struct rpma_peer *peer = make_peer(self);
    struct region local = make_region(self, peer, MEMORY_SIZE, USAGE_MEMORY);
    struct rpma_conn *conn = connect_to(self, peer, argument, NULL);
    struct rpma_mr_remote *remote = remote_region(self, conn, 0);
    send_line(self->link, "writing");
    for (;;) {
        CHECK_OK(rpma_write(conn, remote, 0, local.mr, 0, MEMORY_SIZE, ALWAYS, &local));
        expect_completion(main_cq(conn), IBV_WC_RDMA_WRITE, &local);
    }
}

INTEGRATION_TEST(killed_clients_do_not_affect_the_server)
{
    struct rpma_peer *peer = make_peer(self);
    struct region memory = make_region(self, peer, MEMORY_SIZE, USAGE_MEMORY | USAGE_MESSAGES);
    struct greeting greeting = make_greeting(&memory, 1, false);
    char port[8];
    struct rpma_ep *ep = make_ep(self, peer, port);
    for (int round = 0; round < 5; ++round) {
        struct server *client = start_process(self, self->addr, "endless writer", port);
        struct rpma_conn *conn = accept_next(self, ep, NULL, &greeting);
        CHECK_OK(rpma_recv(conn, memory.mr, 0, 64, &greeting));
        expect_line(client->link, "writing");
        kill_server(client);
        expect_end(conn);
        CHECK_OK(rpma_conn_disconnect(conn));
        expect_failure(main_cq(conn), IBV_WC_WR_FLUSH_ERR, &greeting);
        scope_drop(&self->scope, conn);
    }
}

INTEGRATION_MAIN_WITH_ROLES({"dying", serve_and_die}, {"endless writer", write_for_ever})
