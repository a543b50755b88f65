/* SPDX-License-Identifier: BSD-3-Clause */
/* Datagram queue pairs that exchange addresses through the connection manager (RDMA_PS_UDP). */
#include "fixture.h"

#include <arpa/inet.h>
#include <netinet/in.h>

enum {
    header = 40,
    size = 256,
};

static struct rdma_event_channel *channel;
static struct rdma_event_channel *listen_channel;
static struct rdma_cm_id *listener;

static int listening(void **state)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    channel = rdma_create_event_channel();
    listen_channel = rdma_create_event_channel();
    return rdma_create_id(listen_channel, &listener, NULL, RDMA_PS_UDP) != 0 ||
           rdma_bind_addr(listener, (struct sockaddr *)&any) != 0 || rdma_listen(listener, 4) != 0;
}

static int stopped(void **state)
{
    const int error = rdma_destroy_id(listener);
    rdma_destroy_event_channel(listen_channel);
    rdma_destroy_event_channel(channel);
    return error;
}

static struct rdma_cm_id *resolved(enum rdma_port_space space)
{
    struct rdma_cm_id *id = NULL;
    struct sockaddr_in to = {
            .sin_family = AF_INET, .sin_port = rdma_get_src_port(listener), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(rdma_create_id(channel, &id, NULL, space), 0);
    assert_int_equal(rdma_resolve_addr(id, NULL, (struct sockaddr *)&to, 1000), 0);
    assert_int_equal(expect_event(channel, RDMA_CM_EVENT_ADDR_RESOLVED), 0);
    assert_int_equal(rdma_resolve_route(id, 1000), 0);
    assert_int_equal(expect_event(channel, RDMA_CM_EVENT_ROUTE_RESOLVED), 0);
    return id;
}

static void create_qp(struct rdma_cm_id *id, enum ibv_qp_type type)
{
    struct ibv_qp_init_attr attr = {.qp_type = type,
            .cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = 32}};
    assert_int_equal(rdma_create_qp(id, NULL, &attr), 0);
}

DEFINE_TEST(numbers_and_messages_are_exchanged, listening, stopped)
{
    static uint8_t memory[size];
    struct rdma_cm_id *client = resolved(RDMA_PS_UDP);
    assert_int_equal(client->qp_type, IBV_QPT_UD);
    create_qp(client, IBV_QPT_UD);
    assert_int_equal(client->qp->state, IBV_QPS_RTS);
    struct rdma_conn_param param = {.private_data = "hello, server", .private_data_len = 14};
    assert_int_equal(rdma_connect(client, &param), 0);
    struct rdma_cm_event *event = next_event(listen_channel, RDMA_CM_EVENT_CONNECT_REQUEST);
    struct rdma_cm_id *server = event->id;
    assert_int_equal(server->ps, RDMA_PS_UDP);
    assert_string_equal(event->param.ud.private_data, "hello, server");
    assert_int_equal(rdma_ack_cm_event(event), 0);
    create_qp(server, IBV_QPT_UD);
    struct ibv_mr *mr = ibv_reg_mr(server->pd, memory, size, IBV_ACCESS_LOCAL_WRITE);
    struct ibv_sge sge = {(uintptr_t)memory, size, mr->lkey};
    assert_int_equal(post_receive_list(server->qp, 3, &sge, 1), 0);
    struct rdma_conn_param answer = {.private_data = "me", .private_data_len = 3, .qp_num = server->qp->qp_num};
    assert_int_equal(rdma_accept(server, &answer), 0);
    expect_no_event(listen_channel);

    event = next_event(channel, RDMA_CM_EVENT_ESTABLISHED);
    assert_int_equal(event->status, 0);
    assert_string_equal(event->param.ud.private_data, "me");
    assert_int_equal(event->param.ud.qp_num, server->qp->qp_num);
    assert_int_equal(event->param.ud.qkey, RDMA_UDP_QKEY);
    struct ibv_ah *ah = ibv_create_ah(client->pd, &event->param.ud.ah_attr);
    assert_non_null(ah);
    struct ibv_sge text = {(uintptr_t) "over there", 11, 0};
    struct ibv_send_wr *bad = NULL;
    struct ibv_send_wr send = {.wr_id = 4,
            .sg_list = &text,
            .num_sge = 1,
            .opcode = IBV_WR_SEND,
            .send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED,
            .wr.ud = {ah, event->param.ud.qp_num, event->param.ud.qkey}};
    assert_int_equal(rdma_ack_cm_event(event), 0);
    assert_int_equal(ibv_post_send(client->qp, &send, &bad), 0);
    expect_completion(client->send_cq, 4, IBV_WC_SUCCESS);
    expect_completion(server->recv_cq, 3, IBV_WC_SUCCESS);
    assert_string_equal(memory + header, "over there");

    expect_error(rdma_disconnect(client), EINVAL); /* it never was connected */
    assert_int_equal(ibv_destroy_ah(ah), 0);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    rdma_destroy_qp(server);
    assert_int_equal(rdma_destroy_id(server), 0);
    expect_no_event(channel);
    rdma_destroy_qp(client);
    assert_int_equal(rdma_destroy_id(client), 0);
}

DEFINE_TEST(refusals_are_told, listening, stopped)
{
    struct rdma_cm_id *client = resolved(RDMA_PS_UDP);
    assert_int_equal(rdma_connect(client, NULL), 0);
    struct rdma_cm_event *event = next_event(listen_channel, RDMA_CM_EVENT_CONNECT_REQUEST);
    struct rdma_cm_id *server = event->id;
    assert_int_equal(rdma_ack_cm_event(event), 0);
    assert_int_equal(rdma_accept(server, NULL), -1); /* the queue pair number is missing */
    assert_int_equal(rdma_reject(server, NULL, 0), 0);
    assert_int_equal(rdma_destroy_id(server), 0);
    assert_int_equal(expect_event(channel, RDMA_CM_EVENT_UNREACHABLE), 2);
    assert_int_equal(rdma_destroy_id(client), 0);
}

DEFINE_TEST(a_connection_is_no_datagram, listening, stopped)
{
    struct rdma_cm_id *client = resolved(RDMA_PS_TCP);
    struct ibv_qp_init_attr attr = {.qp_type = IBV_QPT_UD, .cap = {1, 1, 1, 1, 0}};
    expect_error(rdma_create_qp(client, NULL, &attr), EINVAL);
    create_qp(client, IBV_QPT_RC);
    struct rdma_conn_param param = {.retry_count = 7};
    assert_int_equal(rdma_connect(client, &param), 0);
    expect_event(channel, RDMA_CM_EVENT_REJECTED);
    expect_no_event(listen_channel);
    rdma_destroy_qp(client);
    assert_int_equal(rdma_destroy_id(client), 0);
}

DEFINE_TEST(without_a_listener, listening, NULL)
{
    struct rdma_cm_id *client = resolved(RDMA_PS_UDP);
    assert_int_equal(rdma_destroy_id(listener), 0);
    assert_int_equal(rdma_connect(client, NULL), 0);
    assert_int_equal(expect_event(channel, RDMA_CM_EVENT_UNREACHABLE), 1);
    assert_int_equal(rdma_destroy_id(client), 0);
    rdma_destroy_event_channel(listen_channel);
    rdma_destroy_event_channel(channel);
}

DEFINE_TEST(multicast_is_refused, listening, stopped)
{
    struct sockaddr_in group = {.sin_family = AF_INET, .sin_addr.s_addr = inet_addr("239.1.2.3")};
    expect_error(rdma_join_multicast(listener, (struct sockaddr *)&group, NULL), EOPNOTSUPP);
}
