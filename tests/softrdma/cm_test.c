/* SPDX-License-Identifier: BSD-3-Clause */
#include "fixture.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

static const struct rdma_conn_param plain = {.responder_resources = RDMA_MAX_RESP_RES,
        .initiator_depth = RDMA_MAX_INIT_DEPTH,
        .retry_count = 7,
        .rnr_retry_count = 7};

/* A listener, and a client that has sent a connection request. */
static struct rdma_cm_event *ask(struct pair *p, const struct rdma_conn_param *param)
{
    open_listener(p, "127.0.0.1");
    resolve_client(p, NULL);
    connect_client(p, param);
    return take_request(p);
}

TEST(private_data_is_padded_to_the_whole_field)
{
    PAIR p = {0};
    uint8_t zeros[256] = {0};
    struct rdma_conn_param param = plain;
    param.private_data = "hello";
    param.private_data_len = 5;
    struct rdma_cm_event *request = ask(&p, &param);
    assert_int_equal(request->param.conn.private_data_len, 56);
    assert_memory_equal(request->param.conn.private_data, "hello", 5);
    assert_memory_equal((const uint8_t *)request->param.conn.private_data + 5, zeros, 51);
    assert_int_equal(rdma_get_dst_port(p.server.id), rdma_get_src_port(p.client.id));
    assert_int_equal(rdma_get_src_port(p.server.id), rdma_get_src_port(p.listener));
    create_queues(&p.server, NULL, NULL, true);
    assert_int_equal(rdma_ack_cm_event(request), 0);
    param.private_data = "welcome";
    param.private_data_len = 7;
    assert_int_equal(rdma_accept(p.server.id, &param), 0);
    struct rdma_cm_event *established = next_event(p.client.channel, RDMA_CM_EVENT_ESTABLISHED);
    assert_int_equal(established->param.conn.private_data_len, 196);
    assert_memory_equal(established->param.conn.private_data, "welcome", 7);
    assert_memory_equal((const uint8_t *)established->param.conn.private_data + 7, zeros, 189);
    assert_int_equal(rdma_ack_cm_event(established), 0);
    struct rdma_cm_event *passive = next_event(p.listen_channel, RDMA_CM_EVENT_ESTABLISHED);
    assert_int_equal(passive->param.conn.private_data_len, 0);
    assert_int_equal(rdma_ack_cm_event(passive), 0);
}

TEST(rejection_carries_its_reason_and_data)
{
    PAIR p = {0};
    struct rdma_cm_event *request = ask(&p, NULL);
    assert_int_equal(rdma_ack_cm_event(request), 0);
    assert_int_equal(rdma_reject(p.server.id, "no", 2), 0);
    struct rdma_cm_event *rejected = next_event(p.client.channel, RDMA_CM_EVENT_REJECTED);
    assert_int_equal(rejected->status, 28);
    assert_int_equal(rejected->param.conn.private_data_len, 148);
    assert_memory_equal(rejected->param.conn.private_data, "no", 2);
    assert_int_equal(rdma_ack_cm_event(rejected), 0);
    post_and_expect(&p.client, IBV_WR_SEND, 1, 0, 8, NULL, 0, IBV_WC_WR_FLUSH_ERR);
}

static struct side connect_from(struct sockaddr_in *from, struct sockaddr_in *to)
{
    struct side client = {0};
    resolve_side(&client, from, to);
    create_queues(&client, NULL, NULL, false);
    struct rdma_conn_param param = plain;
    assert_int_equal(rdma_connect(client.id, &param), 0);
    return client;
}

/* Returns a TCP socket with its address, which it stores. */
static int bind_socket(struct sockaddr_in *addr)
{
    *addr = (struct sockaddr_in){.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(*addr);
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)addr, sizeof(*addr)), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)addr, &size), 0);
    return fd;
}

/* A TCP socket that accepts connections, but sends nothing. */
TEST(a_peer_that_never_answers_is_unreachable)
{
    skip_over_roce();
    struct sockaddr_in addr;
    const int silent = bind_socket(&addr);
    assert_int_equal(listen(silent, 4), 0);
    struct side client = connect_from(NULL, &addr);
    assert_int_equal(expect_event(client.channel, RDMA_CM_EVENT_UNREACHABLE), -ETIMEDOUT);
    close_with_pd(&client);
    close(silent);
}

TEST(connecting_to_the_own_port_is_a_rejection)
{
    struct sockaddr_in addr;
    close(bind_socket(&addr));
    struct side client = connect_from(&addr, &addr);
    assert_int_equal(expect_event(client.channel, RDMA_CM_EVENT_REJECTED), 8);
    close_with_pd(&client);
}

PAIR_TEST(disconnecting_ends_both_sides_in_turn, connected)
{
    assert_int_equal(post_receive(&p->client, 1, 0, 8), 0);
    assert_int_equal(post_receive(&p->server, 2, 0, 8), 0);
    assert_int_equal(rdma_disconnect(p->client.id), 0);
    expect_completion(p->client.cq, 1, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(expect_event(p->server.channel, RDMA_CM_EVENT_DISCONNECTED), 0);
    expect_no_completion(p->server.cq); /* only the program may move the queue pair to the error state */
    expect_no_event(p->client.channel);
    assert_int_equal(rdma_disconnect(p->server.id), 0);
    expect_completion(p->server.cq, 2, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(expect_event(p->client.channel, RDMA_CM_EVENT_DISCONNECTED), 0);
    assert_int_equal(expect_event(p->client.channel, RDMA_CM_EVENT_TIMEWAIT_EXIT), 0);
    assert_int_equal(expect_event(p->server.channel, RDMA_CM_EVENT_TIMEWAIT_EXIT), 0);
    assert_int_equal(rdma_disconnect(p->client.id), 0); /* no effect */
    expect_no_event(p->client.channel);
    expect_no_event(p->server.channel);
}

TEST(crossing_disconnects_count_for_both_sides)
{
    for (unsigned round = 0; round < 50; ++round) {
        OPEN_PAIR(p, NULL);
        assert_int_equal(rdma_disconnect(p.client.id), 0);
        assert_int_equal(rdma_disconnect(p.server.id), 0);
        assert_int_equal(expect_event(p.client.channel, RDMA_CM_EVENT_DISCONNECTED), 0);
        struct rdma_cm_event *event = next_event(p.server.channel, RDMA_CM_EVENT_DISCONNECTED);
        assert_int_equal(rdma_ack_cm_event(event), 0);
    }
}

PAIR_TEST(destroying_an_id_disconnects_its_peer, connected)
{
    rdma_destroy_qp(p->client.id);
    assert_int_equal(rdma_destroy_id(p->client.id), 0);
    p->client.id = NULL;
    assert_int_equal(expect_event(p->server.channel, RDMA_CM_EVENT_DISCONNECTED), 0);
    expect_no_event(p->server.channel);
    assert_int_equal(rdma_disconnect(p->server.id), 0);
    assert_int_equal(expect_event(p->server.channel, RDMA_CM_EVENT_TIMEWAIT_EXIT), 0);
}

PAIR_TEST(a_peer_that_does_not_confirm_the_disconnect_times_out, connected)
{
    assert_int_equal(rdma_disconnect(p->client.id), 0);
    assert_int_equal(expect_event(p->client.channel, RDMA_CM_EVENT_DISCONNECTED), -ETIMEDOUT);
}

TEST(accept_fails_after_the_client_disconnected)
{
    PAIR p = {0};
    struct rdma_cm_event *request = ask(&p, NULL);
    create_queues(&p.server, NULL, NULL, true);
    assert_int_equal(rdma_ack_cm_event(request), 0);
    rdma_destroy_qp(p.client.id);
    assert_int_equal(rdma_destroy_id(p.client.id), 0);
    p.client.id = NULL;
    usleep(50000);
    struct rdma_conn_param param = plain;
    expect_error(rdma_accept(p.server.id, &param), EINVAL);
}

static void *destroy_id(void *id)
{
    return (void *)(intptr_t)rdma_destroy_id(id);
}

PAIR_TEST(destroying_an_id_waits_for_its_events, connected)
{
    assert_int_equal(rdma_disconnect(p->client.id), 0);
    struct rdma_cm_event *event = next_event(p->server.channel, RDMA_CM_EVENT_DISCONNECTED);
    rdma_destroy_qp(p->server.id);
    const pthread_t thread = start_waiting_call(destroy_id, p->server.id);
    assert_int_equal(rdma_ack_cm_event(event), 0);
    finish_waiting_call(thread);
    p->server.id = NULL;
}

TEST(a_non_blocking_channel_returns_eagain)
{
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct rdma_cm_event *event = NULL;
    assert_int_equal(fcntl(channel->fd, F_SETFL, O_NONBLOCK), 0);
    expect_error(rdma_get_cm_event(channel, &event), EAGAIN);
    expect_error(rdma_get_cm_event(channel, NULL), EINVAL);
    expect_error(rdma_ack_cm_event(NULL), EINVAL);
    rdma_destroy_event_channel(channel);
}

TEST(binding_follows_the_rules_of_addresses)
{
    PAIR p = {0};
    open_listener(&p, "127.0.0.1");
    assert_non_null(p.listener->verbs);
    assert_int_equal(p.listener->port_num, 1);
    assert_int_not_equal(rdma_get_src_port(p.listener), 0);
    struct sockaddr_in addr = {.sin_family = AF_INET,
            .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
            .sin_port = rdma_get_src_port(p.listener)};
    struct rdma_cm_id *id = NULL;
    assert_int_equal(rdma_create_id(p.listen_channel, &id, NULL, RDMA_PS_TCP), 0);
    expect_error(rdma_bind_addr(id, (struct sockaddr *)&addr), EADDRINUSE);
    addr.sin_addr.s_addr = inet_addr("203.0.113.7"); /* reserved for documentation */
    addr.sin_port = 0;
    expect_error(rdma_bind_addr(id, (struct sockaddr *)&addr), EADDRNOTAVAIL);
    addr.sin_addr.s_addr = htonl(INADDR_ANY);
    assert_int_equal(rdma_bind_addr(id, (struct sockaddr *)&addr), 0);
    assert_null(id->verbs);
    addr.sin_family = AF_UNIX;
    expect_error(rdma_bind_addr(id, (struct sockaddr *)&addr), EINVAL);
    assert_int_equal(rdma_destroy_id(id), 0);
}

TEST(numbers_of_no_queue_pair_are_exchanged)
{
    PAIR p = {0};
    open_listener(&p, "127.0.0.1");
    resolve_client(&p, NULL);
    rdma_destroy_qp(p.client.id);
    struct rdma_conn_param param = plain;
    param.qp_num = 1000;
    connect_client(&p, &param);
    struct rdma_cm_event *request = take_request(&p);
    assert_int_equal(request->param.conn.qp_num, 1000);
    assert_int_equal(rdma_ack_cm_event(request), 0);
    param.qp_num = 2000;
    assert_int_equal(rdma_accept(p.server.id, &param), 0);
    struct rdma_cm_event *response = next_event(p.client.channel, RDMA_CM_EVENT_CONNECT_RESPONSE);
    assert_int_equal(response->param.conn.qp_num, 2000);
    assert_int_equal(rdma_ack_cm_event(response), 0);
    assert_int_equal(rdma_establish(p.client.id), 0);
    assert_int_equal(expect_event(p.listen_channel, RDMA_CM_EVENT_ESTABLISHED), 0);
    assert_int_equal(rdma_disconnect(p.client.id), 0);
    assert_int_equal(expect_event(p.listen_channel, RDMA_CM_EVENT_DISCONNECTED), 0);
    assert_int_equal(rdma_disconnect(p.server.id), 0);
    assert_int_equal(expect_event(p.client.channel, RDMA_CM_EVENT_DISCONNECTED), 0);
}

TEST(steps_out_of_order_are_refused)
{
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct rdma_cm_id *id = NULL;
    struct rdma_conn_param param = plain;
    expect_error(rdma_create_id(channel, &id, NULL, RDMA_PS_IPOIB), EOPNOTSUPP);
    assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
    expect_error(rdma_resolve_route(id, 1000), EINVAL);
    assert_int_equal(rdma_connect(id, &param), -1);
    assert_int_equal(rdma_accept(id, &param), -1);
    assert_int_equal(rdma_reject(id, NULL, 0), -1);
    expect_error(rdma_disconnect(id), EINVAL);
    assert_int_equal(rdma_listen(id, 0), 0); /* binds to any port of all addresses */
    assert_int_not_equal(rdma_get_src_port(id), 0);
    assert_int_equal(rdma_listen(id, 0), -1);
    assert_int_equal(rdma_destroy_id(id), 0);
    rdma_destroy_event_channel(channel);
}

static void *accept_one(void *argument)
{
    struct rdma_cm_id **ids = argument; /* listener, then the new connection */
    assert_int_equal(rdma_get_request(ids[0], &ids[1]), 0);
    assert_int_equal(rdma_accept(ids[1], NULL), 0);
    return NULL;
}

TEST(synchronous_ids_return_when_done)
{
    struct rdma_addrinfo hints = {.ai_flags = RAI_PASSIVE, .ai_port_space = RDMA_PS_TCP}, *found = NULL;
    struct ibv_qp_init_attr attr = {.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}};
    struct rdma_cm_id *ids[2] = {NULL, NULL}, *client = NULL;
    assert_int_equal(rdma_getaddrinfo("127.0.0.1", NULL, &hints, &found), 0);
    assert_int_equal(rdma_create_ep(&ids[0], found, NULL, &attr), 0);
    rdma_freeaddrinfo(found);
    assert_int_equal(rdma_listen(ids[0], 0), 0);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, accept_one, ids), 0);
    char port[8];
    snprintf(port, sizeof(port), "%u", ntohs(rdma_get_src_port(ids[0])));
    hints.ai_flags = 0;
    assert_int_equal(rdma_getaddrinfo("127.0.0.1", port, &hints, &found), 0);
    assert_int_equal(rdma_create_ep(&client, found, NULL, &attr), 0);
    rdma_freeaddrinfo(found);
    assert_non_null(client->qp);
    assert_non_null(client->send_cq_channel);
    expect_error(rdma_migrate_id(client, NULL), EINVAL);
    assert_int_equal(rdma_connect(client, NULL), 0);
    assert_int_equal(client->event->event, RDMA_CM_EVENT_ESTABLISHED);
    pthread_join(thread, NULL);
    assert_non_null(ids[1]->qp);
    rdma_destroy_ep(client);
    rdma_destroy_ep(ids[1]);
    rdma_destroy_ep(ids[0]);
}

TEST(a_context_outlives_the_id_it_came_from)
{
    struct pair p = {0};
    open_listener(&p, "127.0.0.1");
    struct ibv_context *context = p.listener->verbs;
    close_pair(&p);
    struct ibv_pd *pd = ibv_alloc_pd(context);
    assert_non_null(pd);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
}
