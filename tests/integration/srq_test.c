// SPDX-License-Identifier: BSD-3-Clause
/* A shared receive queue of several connections. Its receives complete in one of three CQs. */
#include "support/rdma.h"

#include <arpa/inet.h>
#include <string.h>

#define ALWAYS RPMA_F_COMPLETION_ALWAYS
#define CONNECTIONS 4
#define MESSAGES 25 /* per connection */
#define SLOT_SIZE 256
#define SLOTS 8

static void require_srq(struct side *self)
{
    struct ibv_context *context;
    struct ibv_device_attr_ex attributes = {0};
    query_device(self, &context, &attributes);
    if (attributes.orig_attr.max_srq == 0)
        skip_because("the device lacks shared receive queues");
}

struct srq_server {
    struct side *self;
    struct region messages;
    struct rpma_srq *srq;
    struct rpma_conn *conns[CONNECTIONS];
    unsigned received[CONNECTIONS];
};

static void post_slot(struct srq_server *server, size_t slot)
{
    char *buffer = server->messages.ptr + slot * SLOT_SIZE;
    CHECK_OK(rpma_srq_recv(server->srq, server->messages.mr, slot * SLOT_SIZE, SLOT_SIZE, buffer));
}

/* Each message identifies its sender: its immediate value is the client's number times 1000 plus its own number. */
static void check_message(struct srq_server *server, const struct ibv_wc *wc)
{
    CHECK(wc->status == IBV_WC_SUCCESS && wc->opcode == IBV_WC_RECV);
    CHECK_EQ(wc->byte_len, SLOT_SIZE);
    unsigned client = ntohl(wc->imm_data) / 1000, number = ntohl(wc->imm_data) % 1000;
    CHECK(client < CONNECTIONS);
    uint32_t qp_num = 0;
    CHECK_OK(rpma_conn_get_qp_num(server->conns[client], &qp_num));
    CHECK_EQ(wc->qp_num, qp_num);
    CHECK_EQ(number, server->received[client]++);
    const char *buffer = (const char *)(uintptr_t)wc->wr_id;
    check_pattern(buffer, SLOT_SIZE, client + number + 1);
    post_slot(server, (size_t)(buffer - server->messages.ptr) / SLOT_SIZE);
}

static struct rpma_cq *cq_of_receives(const struct srq_server *server, int connection, const char *place)
{
    struct rpma_conn *conn = server->conns[connection];
    struct rpma_cq *own = NULL;
    CHECK_OK(rpma_srq_get_rcq(server->srq, &own));
    if (!strcmp(place, "srq")) {
        CHECK(own != NULL && receive_cq(conn) == NULL);
        return own;
    }
    CHECK(own == NULL);
    CHECK_EQ(receive_cq(conn) != NULL, !strcmp(place, "connection"));
    return receive_cq(conn) ? receive_cq(conn) : main_cq(conn);
}

/* argument: the CQ of the receives: "srq", "connection" or "main". */
static void serve_srq(struct side *self, const char *argument)
{
    struct rpma_peer *peer = make_peer(self);
    struct srq_server server = {.self = self};
    server.messages = make_region(self, peer, SLOTS * SLOT_SIZE, USAGE_MESSAGES);
    server.srq = make_srq(self, peer, SLOTS, strcmp(argument, "srq") ? 0 : SLOTS);
    struct queues queues = {.srq = server.srq, .rcq = strcmp(argument, "main") ? SLOTS : 0};
    struct rpma_conn_cfg *cfg = make_cfg(self, queues);
    char port[8];
    struct rpma_ep *ep = make_ep(self, peer, port);
    for (int i = 0; i < CONNECTIONS; ++i)
        server.conns[i] = accept_next(self, ep, cfg, NULL);
    CHECK_RPMA(rpma_recv(server.conns[0], server.messages.mr, 0, 8, NULL), RPMA_E_PROVIDER);
    for (size_t slot = 0; slot < SLOTS; ++slot)
        post_slot(&server, slot);
    send_line(self->link, "posted");

    int64_t until = deadline();
    for (int left = CONNECTIONS * MESSAGES; left > 0;) {
        CHECK(now_ms() < until);
        for (int i = 0; i < CONNECTIONS; ++i) {
            struct ibv_wc wc;
            int result = rpma_cq_get_wc(cq_of_receives(&server, i, argument), 1, &wc, NULL);
            if (result == RPMA_E_NO_COMPLETION)
                continue;
            CHECK_OK(result);
            check_message(&server, &wc);
            --left;
        }
    }
    send_line(self->link, "got all");
    for (int i = 0; i < CONNECTIONS; ++i)
        expect_end(server.conns[i]);
}

static void send_to_an_srq(struct side *self, const char *place)
{
    require_srq(self);
    struct server *server = start_server(self, "srq", "%s", place);
    struct rpma_peer *peer = make_peer(self);
    struct region source = make_region(self, peer, SLOT_SIZE * CONNECTIONS, USAGE_MESSAGES);
    struct rpma_conn *conns[CONNECTIONS];
    for (int i = 0; i < CONNECTIONS; ++i)
        conns[i] = connect_to(self, peer, server->port, NULL);
    expect_line(server->link, "posted");
    for (unsigned number = 0; number < MESSAGES; ++number) {
        for (unsigned i = 0; i < CONNECTIONS; ++i) {
            fill_pattern(source.ptr + i * SLOT_SIZE, SLOT_SIZE, i + number + 1);
            CHECK_OK(rpma_send_with_imm(
                    conns[i], source.mr, i * SLOT_SIZE, SLOT_SIZE, ALWAYS, i * 1000 + number, conns[i]));
        }
        for (unsigned i = 0; i < CONNECTIONS; ++i)
            expect_completion(main_cq(conns[i]), IBV_WC_SEND, conns[i]);
    }
    expect_line(server->link, "got all");
}

INTEGRATION_TEST(receives_complete_on_the_srqs_own_cq)
{
    send_to_an_srq(self, "srq");
}

INTEGRATION_TEST(receives_complete_on_the_connections_receive_cq)
{
    send_to_an_srq(self, "connection");
}

INTEGRATION_TEST(receives_complete_on_the_main_cq)
{
    send_to_an_srq(self, "main");
}

INTEGRATION_MAIN_WITH_ROLES({"srq", serve_srq})
