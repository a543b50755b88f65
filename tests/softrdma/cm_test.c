/* SPDX-License-Identifier: BSD-3-Clause */
/* The connection manager: connections and their ends, private data, errors of addresses and of synchronous identifiers,
 * ownership of ports. */
#include "remote.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <sys/socket.h>

static struct rdma_event_channel *channel; /* new_id() creates it */

static struct rdma_cm_id *new_id(enum rdma_port_space space)
{
    struct rdma_cm_id *id = NULL;
    if (channel == NULL)
        channel = rdma_create_event_channel();
    assert_int_equal(rdma_create_id(channel, &id, NULL, space), 0);
    return id;
}

static int close_channel(void **state)
{
    rdma_destroy_event_channel(channel);
    return 0;
}

GROUP_FIXTURE(NULL, close_channel)

static void destroy_new_id(struct rdma_cm_id **id)
{
    assert_int_equal(rdma_destroy_id(*id), 0);
}

/* Defines an identifier that is destroyed at the end of the block. */
#define ID(name, space) __attribute__((cleanup(destroy_new_id))) struct rdma_cm_id *name = new_id(space)

/* Binds to an IPv4 address, or to an IPv6 address, which contains a colon. */
static int bind_to(struct rdma_cm_id *id, const char *address, __be16 port)
{
    struct sockaddr_in v4 = {.sin_family = AF_INET, .sin_port = port};
    struct sockaddr_in6 v6 = {.sin6_family = AF_INET6, .sin6_port = port};
    if (inet_pton(AF_INET, address, &v4.sin_addr) == 1)
        return rdma_bind_addr(id, (struct sockaddr *)&v4);
    assert_int_equal(inet_pton(AF_INET6, address, &v6.sin6_addr), 1);
    return rdma_bind_addr(id, (struct sockaddr *)&v6);
}

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

TEST_IN_OWN_PROCESS_AFTER(data_keeps_its_length_in_exact_mode, skip_over_roce())
{
    setenv("SOFTRDMA_PRIVATE_DATA", "exact", 1);
    PAIR p = {0};
    struct rdma_conn_param param = {.private_data = "hello", .private_data_len = 5, .retry_count = 7};
    struct rdma_cm_event *request = ask(&p, &param);
    assert_int_equal(request->param.conn.private_data_len, 5);
    assert_memory_equal(request->param.conn.private_data, "hello", 5);
    assert_int_equal(rdma_ack_cm_event(request), 0);
    assert_int_equal(rdma_reject_ece(p.server.id, NULL, 0), 0);
    assert_int_equal(expect_event(p.client.channel, RDMA_CM_EVENT_REJECTED), 35);
}

static void bind_in_other_process(int ports)
{
    __be16 port = 0;
    if (read(ports, &port, sizeof(port)) != sizeof(port))
        _exit(2);
    _exit(bind_to(new_id(RDMA_PS_TCP), "127.0.0.1", port) == -1 && errno == EADDRINUSE ? 0 : 1);
}

/* The port is also reserved while it is only bound. The other process starts before this one has threads, as
 * ThreadSanitizer requires. */
TEST(a_port_belongs_to_one_process)
{
    const struct child other = start_child(bind_in_other_process);
    ID(id, RDMA_PS_TCP);
    assert_int_equal(bind_to(id, "127.0.0.1", 0), 0);
    const __be16 port = rdma_get_src_port(id);
    assert_int_equal(write(other.out, &port, sizeof(port)), sizeof(port));
    assert_int_equal(exit_code_of(other.pid), 0);
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

TEST(the_client_gets_the_smaller_depth_of_both_sides)
{
    PAIR p = {0};
    struct rdma_conn_param param = plain;
    struct rdma_cm_event *request = ask(&p, &param);
    create_queues(&p.server, NULL, NULL, true);
    assert_int_equal(rdma_ack_cm_event(request), 0);
    param.responder_resources = 2;
    assert_int_equal(rdma_accept(p.server.id, &param), 0);
    assert_int_equal(expect_event(p.client.channel, RDMA_CM_EVENT_ESTABLISHED), 0);
    assert_int_equal(query(p.client.qp, IBV_QP_MAX_QP_RD_ATOMIC).max_rd_atomic, 2);
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
        expect_event(p.server.channel, RDMA_CM_EVENT_DISCONNECTED);
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
    struct rdma_event_channel *own = rdma_create_event_channel();
    struct rdma_cm_event *event = NULL;
    assert_int_equal(fcntl(own->fd, F_SETFL, O_NONBLOCK), 0);
    expect_error(rdma_get_cm_event(own, &event), EAGAIN);
    expect_error(rdma_get_cm_event(own, NULL), EINVAL);
    expect_error(rdma_ack_cm_event(NULL), EINVAL);
    rdma_destroy_event_channel(own);
}

TEST(binding_follows_the_rules_of_addresses)
{
    PAIR p = {0};
    open_listener(&p, "127.0.0.1");
    assert_non_null(p.listener->verbs);
    assert_int_equal(p.listener->port_num, 1);
    assert_int_not_equal(rdma_get_src_port(p.listener), 0);
    ID(id, RDMA_PS_TCP);
    expect_error(bind_to(id, "127.0.0.1", rdma_get_src_port(p.listener)), EADDRINUSE);
    expect_error(bind_to(id, "203.0.113.7", 0), EADDRNOTAVAIL); /* reserved for documentation */
    assert_int_equal(bind_to(id, "0.0.0.0", 0), 0);
    assert_null(id->verbs);
    expect_error(rdma_bind_addr(id, &(struct sockaddr){.sa_family = AF_UNIX}), EINVAL);
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
    ID(id, RDMA_PS_TCP);
    struct rdma_cm_id *none = NULL;
    struct rdma_conn_param param = plain;
    expect_error(rdma_create_id(channel, &none, NULL, RDMA_PS_IPOIB), EOPNOTSUPP);
    expect_error(rdma_resolve_route(id, 1000), EINVAL);
    assert_int_equal(rdma_connect(id, &param), -1);
    assert_int_equal(rdma_accept(id, &param), -1);
    assert_int_equal(rdma_reject(id, NULL, 0), -1);
    expect_error(rdma_disconnect(id), EINVAL);
    assert_int_equal(rdma_listen(id, 0), 0); /* binds to any port of all addresses */
    assert_int_not_equal(rdma_get_src_port(id), 0);
    assert_int_equal(rdma_listen(id, 0), -1);
}

static void *accept_one(void *argument)
{
    struct rdma_cm_id **ids = argument; /* listener, then the new connection */
    assert_int_equal(rdma_get_request(ids[0], &ids[1]), 0);
    assert_int_equal(rdma_accept(ids[1], NULL), 0);
    return NULL;
}

/* Returns a synchronous identifier of that port, or of any. */
static struct rdma_cm_id *create_endpoint(__be16 port, int flags)
{
    struct rdma_addrinfo hints = {.ai_flags = flags, .ai_port_space = RDMA_PS_TCP}, *found = NULL;
    struct ibv_qp_init_attr attr = {.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}};
    struct rdma_cm_id *id = NULL;
    char text[8];
    snprintf(text, sizeof(text), "%u", ntohs(port));
    assert_int_equal(rdma_getaddrinfo("127.0.0.1", port != 0 ? text : NULL, &hints, &found), 0);
    assert_int_equal(rdma_create_ep(&id, found, NULL, &attr), 0);
    rdma_freeaddrinfo(found);
    return id;
}

TEST(synchronous_ids_return_when_done)
{
    struct rdma_cm_id *ids[2] = {create_endpoint(0, RAI_PASSIVE), NULL};
    assert_int_equal(rdma_listen(ids[0], 0), 0);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, accept_one, ids), 0);
    struct rdma_cm_id *client = create_endpoint(rdma_get_src_port(ids[0]), 0);
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

TEST(requests_beyond_the_backlog_wait)
{
    enum {
        callers = 80, /* more than the backlog and the listener's own queue; the remaining callers stay in the kernel's
                         queue */
        backlog = 2
    };
    static struct pair other[callers];
    PAIR p = {0};
    p.listen_channel = rdma_create_event_channel();
    assert_int_equal(rdma_create_id(p.listen_channel, &p.listener, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(bind_to(p.listener, "127.0.0.1", 0), 0);
    assert_int_equal(rdma_listen(p.listener, backlog), 0);
    for (int i = 0; i < callers; ++i) {
        other[i].listener = p.listener;
        resolve_client(&other[i], NULL);
    }
    for (int i = 0; i < callers; ++i)
        connect_client(&other[i], NULL);
    /* A caller cannot detect that its request waits. The program receives all requests in the end. */
    for (int i = 0; i < callers; ++i) {
        struct rdma_cm_event *request = take_request(&p);
        assert_int_equal(rdma_ack_cm_event(request), 0);
        assert_int_equal(rdma_reject(p.server.id, NULL, 0), 0);
        assert_int_equal(rdma_destroy_id(p.server.id), 0);
        p.server.id = NULL;
    }
    for (int i = 0; i < callers; ++i) {
        assert_int_equal(expect_event(other[i].client.channel, RDMA_CM_EVENT_REJECTED), 28);
        other[i].listener = NULL;
        close_pair(&other[i]);
    }
    expect_no_event(p.listen_channel);
}

TEST(a_source_of_no_device_is_an_address_error)
{
    ID(id, RDMA_PS_TCP);
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = inet_addr("203.0.113.7")};
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(1), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(rdma_resolve_addr(id, (struct sockaddr *)&from, (struct sockaddr *)&to, 1000), 0);
    assert_int_equal(expect_event(channel, RDMA_CM_EVENT_ADDR_ERROR), -ENODEV);
    struct rdma_cm_id *request = NULL;
    expect_error(rdma_get_request(id, &request), EINVAL); /* requires a synchronous listener */
}

TEST(a_synchronous_connect_without_a_listener_is_rejected)
{
    struct pair p = {0};
    open_listener(&p, "127.0.0.1");
    const __be16 port = rdma_get_src_port(p.listener);
    close_pair(&p);
    struct rdma_cm_id *id = create_endpoint(port, 0);
    expect_error(rdma_connect(id, NULL), ECONNREFUSED);
    rdma_destroy_ep(id);
}

/* A connection attempt that is refused is retried for some milliseconds, and another socket may bind its port between
 * two attempts. */
TEST(a_lost_port_is_no_error_of_the_network)
{
    PAIR p = {0};
    open_listener(&p, "127.0.0.1");
    resolve_client(&p, NULL);
    rdma_destroy_id(p.listener);
    p.listener = NULL;
    struct sockaddr_in wanted;
    memcpy(&wanted, rdma_get_local_addr(p.client.id), sizeof(wanted));
    const int thief = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(thief >= 0);
    struct rdma_conn_param param = {.retry_count = 7};
    assert_int_equal(rdma_connect(p.client.id, &param), 0);
    struct pollfd answered = {.fd = p.client.channel->fd, .events = POLLIN};
    while (bind(thief, (struct sockaddr *)&wanted, sizeof(wanted)) != 0 && poll(&answered, 1, 0) == 0)
        ;
    assert_int_not_equal(expect_event(p.client.channel, RDMA_CM_EVENT_REJECTED), 0);
    close(thief);
}

/* Binds one id to any port, and another one of this process to the same port. Returns 0 or the errno
 * value of the second. */
static int bind_both(const char *first, const char *second, int option)
{
    ID(one, RDMA_PS_TCP);
    ID(two, RDMA_PS_TCP);
    int yes = 1;
    if (option != 0) {
        assert_int_equal(rdma_set_option(one, RDMA_OPTION_ID, option, &yes, sizeof(yes)), 0);
        assert_int_equal(rdma_set_option(two, RDMA_OPTION_ID, option, &yes, sizeof(yes)), 0);
    }
    assert_int_equal(bind_to(one, first, 0), 0);
    return bind_to(two, second, rdma_get_src_port(one)) == 0 ? 0 : errno;
}

/* Another program may use the port at the second address; then another port is tried. */
static void try_ports(const char *first, const char *second, int option, bool both)
{
    int error = EADDRINUSE;
    for (int tries = both ? 10 : 1; error != 0 && tries > 0; --tries)
        error = bind_both(first, second, option);
    assert_int_equal(error, both ? 0 : EADDRINUSE);
}

TEST(a_port_belongs_to_one_id)
{
    try_ports("127.0.0.1", "127.0.0.1", 0, false);
    try_ports("0.0.0.0", "127.0.0.1", 0, false);
    try_ports("127.0.0.1", "0.0.0.0", 0, false);
    try_ports("127.0.0.1", "127.0.0.2", 0, true);
    try_ports("127.0.0.1", "127.0.0.1", RDMA_OPTION_ID_REUSEADDR, true);
    if (access("/proc/net/if_inet6", F_OK) == 0) {
        try_ports("::", "127.0.0.1", 0, false);
        try_ports("::", "127.0.0.1", RDMA_OPTION_ID_AFONLY, true);
    }
}

TEST(a_listener_shares_its_port_with_none)
{
    struct rdma_cm_id *ids[3];
    int yes = 1;
    for (int i = 0; i < 3; ++i) {
        ids[i] = new_id(RDMA_PS_TCP);
        assert_int_equal(rdma_set_option(ids[i], RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes, sizeof(yes)), 0);
    }
    assert_int_equal(bind_to(ids[0], "127.0.0.1", 0), 0);
    const __be16 port = rdma_get_src_port(ids[0]);
    assert_int_equal(bind_to(ids[1], "127.0.0.1", port), 0);
    expect_error(rdma_listen(ids[0], 1), EADDRINUSE);
    assert_int_equal(rdma_destroy_id(ids[1]), 0);
    assert_int_equal(rdma_listen(ids[0], 1), 0);
    assert_int_equal(rdma_set_option(ids[0], RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes, sizeof(yes)), -1);
    expect_error(bind_to(ids[2], "127.0.0.1", port), EADDRINUSE);
    expect_error(rdma_listen(ids[2], 1), EADDRINUSE); /* not at another port, either */
    assert_int_equal(bind_to(ids[2], "127.0.0.1", 0), 0);
    assert_int_equal(rdma_listen(ids[2], 1), 0);
    assert_int_equal(rdma_destroy_id(ids[0]), 0);
    assert_int_equal(rdma_destroy_id(ids[2]), 0);
}

/* Ports are TCP ports, so the port spaces are not separate. */
TEST(spaces_have_the_same_ports)
{
    skip_over_roce();
    ID(one, RDMA_PS_UDP);
    ID(two, RDMA_PS_TCP);
    assert_int_equal(bind_to(one, "127.0.0.1", 0), 0);
    expect_error(bind_to(two, "127.0.0.1", rdma_get_src_port(one)), EADDRINUSE);
}

/* Connections of an ended listener do not prevent the next listener from using its port. */
TEST(a_port_is_free_again_with_its_listener)
{
    PAIR p = {0};
    open_pair(&p, &(struct options){0});
    const __be16 port = rdma_get_src_port(p.listener);
    assert_int_equal(rdma_destroy_id(p.listener), 0);
    assert_int_equal(rdma_create_id(p.listen_channel, &p.listener, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(bind_to(p.listener, "127.0.0.1", port), 0);
    assert_int_equal(rdma_listen(p.listener, 1), 0);
}

static void *get_event_of(void *of)
{
    struct rdma_cm_event *event = NULL;
    rdma_get_cm_event(of, &event);
    return NULL;
}

TEST(who_comes_to_a_destroyed_channel_waits)
{
    struct rdma_event_channel *own = rdma_create_event_channel();
    assert_non_null(own);
    rdma_destroy_event_channel(own);
    const pthread_t late = start_waiting_call(get_event_of, own);
    pthread_cancel(late);
    pthread_join(late, NULL);
}
