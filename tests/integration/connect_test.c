// SPDX-License-Identifier: BSD-3-Clause
/* Establishing connections, and connections that are rejected. */
#include "support/memory_server.h"

#include <errno.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define ALWAYS RPMA_F_COMPLETION_ALWAYS

/* Rejects as many requests as the argument specifies, then accepts one. */
static void serve_after_rejecting(struct side *self, const char *argument)
{
    struct rpma_peer *peer = make_peer(self);
    char port[8];
    struct rpma_ep *ep = make_ep(self, peer, port);
    for (int i = atoi(argument); i > 0; --i)
        scope_drop(&self->scope, next_request(self, ep, NULL));
    expect_end(accept_next(self, ep, NULL, NULL));
}

INTEGRATION_TEST(a_deleted_request_rejects_the_client)
{
    struct server *server = start_server(self, "after rejecting", "3");
    struct rpma_peer *peer = make_peer(self);
    for (int i = 0; i < 3; ++i) {
        struct rpma_conn *conn = connect_request(self, new_request(self, peer, server->port, NULL), NULL);
        expect_event(conn, RPMA_CONN_REJECTED);
        scope_drop(&self->scope, conn);
    }
    connect_to(self, peer, server->port, NULL);
}

/* Processes a request with a contradictory configuration, then one with a valid one. */
static void serve_after_failing(struct side *self, const char *argument)
{
    struct rpma_peer *peer = make_peer(self);
    struct rpma_srq *srq = make_srq(self, peer, 4, 4);
    struct rpma_conn_cfg *cfg = make_cfg(self, (struct queues){.srq = srq, .shared = true});
    char port[8];
    struct rpma_ep *ep = make_ep(self, peer, port);
    struct rpma_conn_req *req = NULL;
    CHECK_RPMA(rpma_ep_next_conn_req(ep, cfg, &req), RPMA_E_INVAL);
    CHECK(req == NULL);
    expect_end(accept_next(self, ep, NULL, NULL));
}

INTEGRATION_TEST(a_request_that_cannot_be_built_is_rejected)
{
    needs_no_older_library();
    struct server *server = start_server(self, "after failing", "-");
    struct rpma_peer *peer = make_peer(self);
    struct rpma_conn *conn = connect_request(self, new_request(self, peer, server->port, NULL), NULL);
    expect_event(conn, RPMA_CONN_REJECTED);
    connect_to(self, peer, server->port, NULL);
}

INTEGRATION_TEST(a_port_without_a_listener_rejects_the_client)
{
    struct rpma_peer *peer = make_peer(self);
    char port[8];
    reserve_port(self, port);
    struct rpma_conn *conn = connect_request(self, new_request(self, peer, port, NULL), NULL);
    expect_event(conn, RPMA_CONN_REJECTED);
    struct rpma_conn_private_data pdata;
    CHECK_OK(rpma_conn_get_private_data(conn, &pdata));
    CHECK(pdata.ptr == NULL && pdata.len == 0);
}

INTEGRATION_TEST(a_rejected_connection_takes_no_operations)
{
    struct rpma_peer *peer = make_peer(self);
    struct region local = make_region(self, peer, 64, USAGE_MESSAGES);
    char port[8];
    reserve_port(self, port);
    struct rpma_conn_req *req = new_request(self, peer, port, NULL);
    CHECK_OK(rpma_conn_req_recv(req, local.mr, 0, 64, &local));
    struct rpma_conn *conn = connect_request(self, req, NULL);
    expect_event(conn, RPMA_CONN_REJECTED);
    expect_failure(main_cq(conn), IBV_WC_WR_FLUSH_ERR, &local);
    if (rpma_send(conn, local.mr, 0, 8, ALWAYS, &port) == 0)
        expect_failure(main_cq(conn), IBV_WC_WR_FLUSH_ERR, &port);
}

/* Listens, but does not process requests. */
static void serve_silently(struct side *self, const char *argument)
{
    char port[8];
    make_ep(self, make_peer(self), port);
    expect_line(self->link, "end");
}

INTEGRATION_TEST(a_client_may_give_up_before_the_server_answers)
{
    struct server *server = start_server(self, "silent", "-");
    struct rpma_peer *peer = make_peer(self);
    for (int i = 0; i < 10; ++i) {
        struct rpma_conn_req *req = new_request(self, peer, server->port, NULL);
        if (i % 2)
            scope_drop(&self->scope, connect_request(self, req, NULL));
        else
            scope_drop(&self->scope, req);
    }
    send_line(server->link, "end");
}

INTEGRATION_TEST(an_address_that_cannot_be_used_is_refused)
{
    struct rpma_peer *peer = make_peer(self);
    struct rpma_ep *ep = NULL;
    struct rpma_conn_req *req = NULL;
    char port[8];
    struct rpma_ep *first = make_ep(self, peer, port);
    CHECK(first != NULL);
    CHECK_RPMA(rpma_ep_listen(peer, self->addr, port, &ep), RPMA_E_PROVIDER);
    CHECK_EQ(errno, EADDRINUSE);
    CHECK_RPMA(rpma_ep_listen(peer, self->addr, "no such port", &ep), RPMA_E_PROVIDER);
    CHECK_RPMA(rpma_conn_req_new(peer, self->addr, "no such port", NULL, &req), RPMA_E_PROVIDER);
    CHECK_RPMA(rpma_ep_listen(peer, "192.0.2.1" /* not an address of any machine */, "7", &ep), RPMA_E_PROVIDER);
    CHECK(ep == NULL && req == NULL);
}

/* Receives as many requests as the argument specifies before it processes the first, then establishes all. */
static void serve_late(struct side *self, const char *argument)
{
    struct rpma_conn_req *reqs[32];
    struct rpma_conn *conns[32];
    int count = atoi(argument);
    CHECK(count <= 32);
    char port[8];
    struct rpma_ep *ep = make_ep(self, make_peer(self), port);
    expect_line(self->link, "all have asked");
    for (int i = 0; i < count; ++i)
        reqs[i] = next_request(self, ep, NULL);
    for (int i = 0; i < count; ++i)
        conns[i] = connect_request(self, reqs[i], NULL);
    for (int i = 0; i < count; ++i)
        expect_event(conns[i], RPMA_CONN_ESTABLISHED);
    send_line(self->link, "established all");
    for (int i = 0; i < count; ++i)
        expect_end(conns[i]);
}

INTEGRATION_TEST(requests_wait_for_a_server_that_is_busy)
{
    struct server *server = start_server(self, "late", "32");
    struct rpma_peer *peer = make_peer(self);
    struct rpma_conn *conns[32];
    for (int i = 0; i < 32; ++i)
        conns[i] = connect_request(self, new_request(self, peer, server->port, NULL), NULL);
    send_line(server->link, "all have asked");
    for (int i = 0; i < 32; ++i)
        expect_event(conns[i], RPMA_CONN_ESTABLISHED);
    expect_line(server->link, "established all");
}

/* Shuts down its endpoint while two requests are pending: accepts the first, rejects the second. */
static void serve_without_endpoint(struct side *self, const char *argument)
{
    struct rpma_peer *peer = make_peer(self);
    struct region memory = make_region(self, peer, 4096, USAGE_MEMORY);
    struct greeting greeting = make_greeting(&memory, 1, false);
    struct rpma_conn_private_data pdata = {.ptr = &greeting, .len = sizeof(greeting)};
    char port[8];
    struct rpma_ep *ep = make_ep(self, peer, port);
    struct rpma_conn_req *first = next_request(self, ep, NULL);
    send_line(self->link, "first");
    struct rpma_conn_req *second = next_request(self, ep, NULL);
    scope_drop(&self->scope, ep);
    struct rpma_conn *conn = connect_request(self, first, &pdata);
    expect_event(conn, RPMA_CONN_ESTABLISHED);
    scope_drop(&self->scope, second);
    expect_end(conn);
    CHECK_OK(rpma_conn_disconnect(conn));
    check_pattern(memory.ptr, 4096, 5);
}

INTEGRATION_TEST(pending_requests_survive_the_shutdown_of_their_endpoint)
{
    needs_no_older_library();
    struct server *server = start_server(self, "no endpoint", "-");
    struct rpma_peer *peer = make_peer(self);
    struct region local = make_region(self, peer, 4096, USAGE_MEMORY);
    struct rpma_conn *first = connect_request(self, new_request(self, peer, server->port, NULL), NULL);
    expect_line(server->link, "first");
    struct rpma_conn *second = connect_request(self, new_request(self, peer, server->port, NULL), NULL);
    expect_event(first, RPMA_CONN_ESTABLISHED);
    expect_event(second, RPMA_CONN_REJECTED);
    fill_pattern(local.ptr, 4096, 5);
    CHECK_OK(rpma_write(first, remote_region(self, first, 0), 0, local.mr, 0, 4096, ALWAYS, &local));
    expect_completion(main_cq(first), IBV_WC_RDMA_WRITE, &local);
    disconnect(first);
    struct rpma_conn *third = connect_request(self, new_request(self, peer, server->port, NULL), NULL);
    expect_event(third, RPMA_CONN_REJECTED);
}

static bool has_ipv6(void)
{
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in6 loopback = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    bool can = fd >= 0 && bind(fd, (struct sockaddr *)&loopback, sizeof(loopback)) == 0;
    if (fd >= 0)
        close(fd);
    return can;
}

INTEGRATION_TEST(connections_run_over_ipv6)
{
    struct ibv_context *device = NULL;
    if (!has_ipv6() || network_of_servers())
        skip_because("this machine, or that of the servers, lacks ::1");
    self->addr = "::1";
    /* librpma 1.3.0 returns no device and no error if only part of the kernel's RDMA stack knows the address. */
    if (rpma_utils_get_ibv_context(self->addr, RPMA_UTIL_IBV_CONTEXT_LOCAL, &device) || !device)
        skip_because("no device serves ::1");
    struct session session = open_session(self, 4096, NULL);
    fill_pattern(session.local.ptr, 4096, 1);
    CHECK_OK(rpma_write(session.conn, session.remote, 0, session.local.mr, 0, 4096, ALWAYS, &session));
    expect_completion(session.cq, IBV_WC_RDMA_WRITE, &session);
    ask(session.server->link, "check 0 4096 1");
}

static void connect_to_own_process(struct side *self, void *argument)
{
    struct rpma_peer *peer = make_peer(self);
    struct region local = make_region(self, peer, 4096, USAGE_MEMORY);
    struct rpma_conn *conn = connect_to(self, peer, argument, NULL);
    fill_pattern(local.ptr, 4096, 1);
    CHECK_OK(rpma_write(conn, remote_region(self, conn, 0), 0, local.mr, 0, 4096, ALWAYS, &local));
    expect_completion(main_cq(conn), IBV_WC_RDMA_WRITE, &local);
    disconnect(conn);
}

INTEGRATION_TEST(a_process_may_be_its_own_client)
{
    struct rpma_peer *peer = make_peer(self);
    struct region memory = make_region(self, peer, 4096, USAGE_MEMORY);
    struct greeting greeting = make_greeting(&memory, 1, false);
    char port[8];
    struct rpma_ep *ep = make_ep(self, peer, port);
    struct worker *worker = start_worker(self, connect_to_own_process, port);
    struct rpma_conn *conn = accept_next(self, ep, NULL, &greeting);
    expect_end(conn);
    CHECK_OK(rpma_conn_disconnect(conn));
    join_worker(self, worker);
    check_pattern(memory.ptr, 4096, 1);
}

INTEGRATION_TEST(a_receive_posted_on_the_request_gets_the_first_message)
{
    struct server *server = start_server(self, "memory", "4096 %d - 4096", USAGE_MEMORY);
    struct rpma_peer *peer = make_peer(self);
    struct region local = make_region(self, peer, 4096, USAGE_MESSAGES);
    struct rpma_conn_req *req = new_request(self, peer, server->port, NULL);
    CHECK_OK(rpma_conn_req_recv(req, local.mr, 64, 512, &local));
    struct rpma_conn *conn = connect_request(self, req, NULL);
    expect_event(conn, RPMA_CONN_ESTABLISHED);
    ask(server->link, "send 0 512 3");
    struct ibv_wc wc = expect_completion(main_cq(conn), IBV_WC_RECV, &local);
    uint32_t qp_num = 0;
    CHECK_OK(rpma_conn_get_qp_num(conn, &qp_num));
    CHECK_EQ(wc.qp_num, qp_num);
    check_pattern(local.ptr + 64, 512, 3);
}

INTEGRATION_MAIN_WITH_ROLES({"after rejecting", serve_after_rejecting}, {"after failing", serve_after_failing},
        {"silent", serve_silently}, {"late", serve_late}, {"no endpoint", serve_without_endpoint})
