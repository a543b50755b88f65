// SPDX-License-Identifier: BSD-3-Clause
/* Ends of connections: closed by one side, by both at the same time, or by the death of a process. */
#include "support/memory_server.h"

#include <stdlib.h>
#include <time.h>

#define MEMORY_SIZE 65536
#define ALWAYS RPMA_F_COMPLETION_ALWAYS

/* Disconnects before the server can know that the connection is established. */
static void serve_and_disconnect_at_once(struct side *self, const char *argument)
{
    char port[8];
    struct rpma_ep *ep = make_ep(self, make_peer(self), port);
    struct rpma_conn *conn = connect_request(self, next_request(self, ep, NULL), NULL);
    CHECK_OK(rpma_conn_disconnect(conn));
    enum rpma_conn_event event = next_event(conn);
    if (event == RPMA_CONN_ESTABLISHED)
        event = next_event(conn);
    CHECK_EQ(event, RPMA_CONN_CLOSED);
}

INTEGRATION_TEST(the_server_disconnects_at_once)
{
    needs_no_older_library();
    struct server *server = start_server(self, "hasty", "-");
    struct rpma_conn *conn = connect_to(self, make_peer(self), server->port, NULL);
    expect_end(conn);
    CHECK_OK(rpma_conn_disconnect(conn));
}

#define CROSSINGS 100

/* Both processes use the same clock, so they can act within a microsecond of each other. */
static int64_t clock_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void disconnect_at(struct rpma_conn *conn, int64_t moment_ns)
{
    while (clock_ns() < moment_ns)
        ;
    disconnect(conn);
}

/* Disconnects at the same time as the client. */
static void serve_crossings(struct side *self, const char *argument)
{
    struct rpma_peer *peer = make_peer(self);
    char port[8];
    struct rpma_ep *ep = make_ep(self, peer, port);
    for (int i = 0; i < CROSSINGS; ++i) {
        struct rpma_conn *conn = accept_next(self, ep, NULL, NULL);
        char line[32];
        CHECK(link_read(self->link, line, sizeof(line)));
        disconnect_at(conn, strtoll(line, NULL, 10));
        scope_drop(&self->scope, conn);
    }
}

INTEGRATION_TEST(both_sides_may_disconnect_at_once)
{
    struct server *server = start_server(self, "crossings", "-");
    struct rpma_peer *peer = make_peer(self);
    for (int i = 0; i < CROSSINGS; ++i) {
        struct rpma_conn *conn = connect_to(self, peer, server->port, NULL);
        int64_t moment_ns = clock_ns() + 2000000;
        send_line(server->link, "%lld", (long long)moment_ns);
        disconnect_at(conn, moment_ns);
        scope_drop(&self->scope, conn);
    }
}

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

INTEGRATION_TEST(a_killed_server_fails_operations_and_ends_the_connection)
{
    struct session session = open_session(self, MEMORY_SIZE, NULL);
    CHECK_OK(rpma_recv(session.conn, session.local.mr, 0, 64, &self));
    for (int i = 0; i < 20; ++i) {
        CHECK_OK(rpma_write(session.conn, session.remote, 0, session.local.mr, 0, MEMORY_SIZE, ALWAYS, &session));
        expect_completion(session.cq, IBV_WC_RDMA_WRITE, &session);
    }
    kill_server(session.server);
    /* The flushed receive may complete before or after the failed write. */
    int64_t until = deadline();
    bool receive_failed = false, write_failed = false, ended = false;
    while (!receive_failed || !write_failed) {
        CHECK(now_ms() < until);
        if (!write_failed &&
                rpma_write(session.conn, session.remote, 0, session.local.mr, 0, MEMORY_SIZE, ALWAYS, &session))
            write_failed = true;
        struct ibv_wc wc = completion_after_death(&session, &ended);
        receive_failed = receive_failed || wc.wr_id == (uintptr_t)&self;
        write_failed = write_failed || (wc.wr_id == (uintptr_t)&session && wc.status != IBV_WC_SUCCESS);
    }
    if (!ended)
        expect_end(session.conn);
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
    char port[8];
    struct rpma_ep *ep = make_ep(self, peer, port);
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

INTEGRATION_MAIN_WITH_ROLES({"hasty", serve_and_disconnect_at_once}, {"crossings", serve_crossings},
        {"dying", serve_and_die}, {"endless writer", write_for_ever})
