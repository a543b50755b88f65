// SPDX-License-Identifier: BSD-3-Clause
/* Descriptors in an event loop. */
#include "support/rdma.h"

#include <sys/epoll.h>

#define ALWAYS RPMA_F_COMPLETION_ALWAYS
#define CLIENTS 8
#define ECHOES 40
#define MESSAGE_SIZE 512

static int event_fd_of(const struct rpma_conn *conn)
{
    int fd = -1;
    CHECK_OK(rpma_conn_get_event_fd(conn, &fd));
    return fd;
}

/* A descriptor of the loop, and the function to call when it is readable. */
struct source {
    int fd;
    struct client *client;
};

struct client {
    struct rpma_conn *conn;
    struct region messages;
    bool established;
    bool closed;
    struct source events;
    struct source completions;
};

struct loop {
    struct side *self;
    int epoll;
    struct rpma_peer *peer;
    struct rpma_ep *ep;
    struct source requests;
    struct client clients[CLIENTS];
    int accepted;
    int closed;
};

static void watch(struct loop *loop, struct source *source, int fd, struct client *client)
{
    make_nonblocking(fd);
    *source = (struct source){fd, client};
    struct epoll_event entry = {.events = EPOLLIN, .data.ptr = source};
    CHECK_EQ(epoll_ctl(loop->epoll, EPOLL_CTL_ADD, fd, &entry), 0);
}

static void take_requests(struct loop *loop)
{
    for (;;) {
        struct rpma_conn_req *req = NULL;
        int result = rpma_ep_next_conn_req(loop->ep, NULL, &req);
        if (result == RPMA_E_NO_EVENT)
            return;
        CHECK_OK(result);
        scope_add(&loop->self->scope, release_req, req);
        CHECK(loop->accepted < CLIENTS);
        struct client *client = &loop->clients[loop->accepted++];
        client->messages = make_region(loop->self, loop->peer, MESSAGE_SIZE, USAGE_MESSAGES);
        CHECK_OK(rpma_conn_req_recv(req, client->messages.mr, 0, MESSAGE_SIZE, client));
        client->conn = connect_request(loop->self, req, NULL);
        watch(loop, &client->events, event_fd_of(client->conn), client);
        watch(loop, &client->completions, cq_fd(main_cq(client->conn)), client);
    }
}

static void take_events(struct loop *loop, struct client *client)
{
    enum rpma_conn_event event;
    int result;
    while ((result = rpma_conn_next_event(client->conn, &event)) == 0) {
        if (event == RPMA_CONN_ESTABLISHED) {
            CHECK(!client->established);
            client->established = true;
        } else if (!client->closed) {
            CHECK_EQ(event, RPMA_CONN_CLOSED);
            client->closed = true;
            ++loop->closed;
            CHECK_OK(rpma_conn_disconnect(client->conn));
        }
    }
    CHECK_RPMA(result, RPMA_E_NO_EVENT);
}

static void take_completions(struct client *client)
{
    struct rpma_cq *cq = main_cq(client->conn);
    int result;
    while ((result = rpma_cq_wait(cq)) == 0) {
        struct ibv_wc wcs[4];
        int got = 0;
        while ((result = rpma_cq_get_wc(cq, 4, wcs, &got)) == 0) {
            CHECK(got >= 1 && got <= 4);
            for (int i = 0; i < got; ++i) {
                if (wcs[i].status == IBV_WC_WR_FLUSH_ERR)
                    continue;
                CHECK_EQ(wcs[i].status, IBV_WC_SUCCESS);
                if (wcs[i].opcode != IBV_WC_RECV)
                    continue;
                /* The message is echoed from its buffer. The buffer receives the next message, which the client sends
                 * after the echo. */
                CHECK_OK(rpma_recv(client->conn, client->messages.mr, 0, MESSAGE_SIZE, client));
                CHECK_OK(rpma_send(client->conn, client->messages.mr, 0, wcs[i].byte_len, ALWAYS, client));
            }
        }
        CHECK_RPMA(result, RPMA_E_NO_COMPLETION);
    }
    CHECK_RPMA(result, RPMA_E_NO_COMPLETION);
}

/* One thread with one epoll descriptor that contains all descriptors of librpma. No call may block. */
static void serve_event_loop(struct side *self, const char *argument)
{
    struct loop loop = {.self = self, .epoll = epoll_create1(EPOLL_CLOEXEC)};
    CHECK(loop.epoll >= 0);
    scope_add(&self->scope, release_fd, (void *)(intptr_t)loop.epoll);
    loop.peer = make_peer(self);
    char port[8];
    loop.ep = make_ep(self, loop.peer, port);
    int fd = -1;
    CHECK_OK(rpma_ep_get_fd(loop.ep, &fd));
    watch(&loop, &loop.requests, fd, NULL);
    int64_t until = deadline();
    while (loop.closed < CLIENTS) {
        struct epoll_event ready[4];
        int count = epoll_wait(loop.epoll, ready, 4, 100);
        CHECK(now_ms() < until);
        for (int i = 0; i < count; ++i) {
            struct source *source = ready[i].data.ptr;
            if (source == &loop.requests)
                take_requests(&loop);
            else if (source == &source->client->events)
                take_events(&loop, source->client);
            else
                take_completions(source->client);
        }
    }
    for (int i = 0; i < CLIENTS; ++i)
        CHECK(loop.clients[i].established);
    send_line(self->link, "all closed");
}

INTEGRATION_TEST(a_nonblocking_event_loop_serves_many_clients)
{
    needs_no_older_library();
    struct server *server = start_server(self, "event loop", "-");
    struct rpma_peer *peer = make_peer(self);
    struct rpma_conn *conns[CLIENTS];
    for (int i = 0; i < CLIENTS; ++i)
        conns[i] = connect_to(self, peer, server->port, NULL);
    struct region local = make_region(self, peer, 2 * MESSAGE_SIZE * CLIENTS, USAGE_MESSAGES);
    for (unsigned round = 1; round <= ECHOES; ++round) {
        for (size_t i = 0; i < CLIENTS; ++i) {
            size_t out = 2 * i * MESSAGE_SIZE, in = out + MESSAGE_SIZE;
            fill_pattern(local.ptr + out, MESSAGE_SIZE, (unsigned)i + round);
            CHECK_OK(rpma_recv(conns[i], local.mr, in, MESSAGE_SIZE, conns[i]));
            CHECK_OK(rpma_send(conns[i], local.mr, out, MESSAGE_SIZE, RPMA_F_COMPLETION_ON_ERROR, NULL));
        }
        for (size_t i = 0; i < CLIENTS; ++i) {
            expect_completion(main_cq(conns[i]), IBV_WC_RECV, conns[i]);
            check_pattern(local.ptr + (2 * i + 1) * MESSAGE_SIZE, MESSAGE_SIZE, (unsigned)i + round);
            if (round % 4 == 0) {
                CHECK_OK(rpma_write(conns[i], NULL, 0, NULL, 0, 0, ALWAYS, &round));
                expect_completion(main_cq(conns[i]), IBV_WC_RDMA_WRITE, &round);
            }
        }
    }
    for (int i = 0; i < CLIENTS; ++i)
        disconnect(conns[i]);
    expect_line(server->link, "all closed");
}

INTEGRATION_MAIN_WITH_ROLES({"event loop", serve_event_loop})
