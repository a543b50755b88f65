/* SPDX-License-Identifier: BSD-3-Clause */
/* Rules of the connection manager beyond a single connection: backlog, private data as on iWARP, errors of addresses
 * and of synchronous identifiers, ownership of ports. */
#include "remote.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <unistd.h>

static struct rdma_cm_id *new_id(struct rdma_event_channel *channel, enum rdma_port_space space)
{
    struct rdma_cm_id *id = NULL;
    assert_int_equal(rdma_create_id(channel, &id, NULL, space), 0);
    return id;
}

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

static void bind_in_other_process(int ports)
{
    __be16 port = 0;
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct rdma_cm_id *id = NULL;
    if (read(ports, &port, sizeof(port)) != sizeof(port) || rdma_create_id(channel, &id, NULL, RDMA_PS_TCP) != 0)
        _exit(2);
    _exit(bind_to(id, "127.0.0.1", port) == -1 && errno == EADDRINUSE ? 0 : 1);
}

/* The port is also reserved while it is only bound. The other process starts before this one has threads, as
 * ThreadSanitizer requires. */
TEST(a_port_belongs_to_one_process)
{
    const struct child other = start_child(bind_in_other_process);
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct rdma_cm_id *id = new_id(channel, RDMA_PS_TCP);
    assert_int_equal(bind_to(id, "127.0.0.1", 0), 0);
    const __be16 port = rdma_get_src_port(id);
    assert_int_equal(write(other.out, &port, sizeof(port)), sizeof(port));
    assert_int_equal(exit_code_of(other.pid), 0);
    rdma_destroy_id(id);
    rdma_destroy_event_channel(channel);
}

TEST(data_keeps_its_length_in_exact_mode)
{
    skip_over_roce();
    PAIR p = {0};
    struct rdma_conn_param param = {.private_data = "hello", .private_data_len = 5, .retry_count = 7};
    open_listener(&p, "127.0.0.1");
    resolve_client(&p, NULL);
    connect_client(&p, &param);
    struct rdma_cm_event *request = take_request(&p);
    assert_int_equal(request->param.conn.private_data_len, 5);
    assert_memory_equal(request->param.conn.private_data, "hello", 5);
    assert_int_equal(rdma_ack_cm_event(request), 0);
    assert_int_equal(rdma_reject_ece(p.server.id, NULL, 0), 0);
    assert_int_equal(expect_event(p.client.channel, RDMA_CM_EVENT_REJECTED), 35);
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
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    p.listen_channel = rdma_create_event_channel();
    assert_int_equal(rdma_create_id(p.listen_channel, &p.listener, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_bind_addr(p.listener, (struct sockaddr *)&address), 0);
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
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct rdma_cm_id *id = NULL;
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = inet_addr("203.0.113.7")};
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(1), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    assert_int_equal(rdma_create_id(channel, &id, NULL, RDMA_PS_TCP), 0);
    assert_int_equal(rdma_resolve_addr(id, (struct sockaddr *)&from, (struct sockaddr *)&to, 1000), 0);
    assert_int_equal(expect_event(channel, RDMA_CM_EVENT_ADDR_ERROR), -ENODEV);
    struct rdma_cm_id *request = NULL;
    expect_error(rdma_get_request(id, &request), EINVAL); /* requires a synchronous listener */
    assert_int_equal(rdma_destroy_id(id), 0);
    rdma_destroy_event_channel(channel);
}

TEST(a_synchronous_connect_without_a_listener_is_rejected)
{
    struct pair p = {0};
    open_listener(&p, "127.0.0.1");
    char port[8];
    snprintf(port, sizeof(port), "%u", ntohs(rdma_get_src_port(p.listener)));
    close_pair(&p);
    struct rdma_addrinfo hints = {.ai_port_space = RDMA_PS_TCP}, *found = NULL;
    struct ibv_qp_init_attr attr = {.cap = {.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1}};
    struct rdma_cm_id *id = NULL;
    assert_int_equal(rdma_getaddrinfo("127.0.0.1", port, &hints, &found), 0);
    assert_int_equal(rdma_create_ep(&id, found, NULL, &attr), 0);
    rdma_freeaddrinfo(found);
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

static void expect_taken(int result)
{
    expect_error(result, EADDRINUSE);
}

/* Binds one id to any port, and another one of this process to the same port. Returns the result of the second. */
static int bind_both(const char *first, const char *second, int option)
{
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct rdma_cm_id *one = new_id(channel, RDMA_PS_TCP), *two = new_id(channel, RDMA_PS_TCP);
    int yes = 1;
    if (option != 0) {
        assert_int_equal(rdma_set_option(one, RDMA_OPTION_ID, option, &yes, sizeof(yes)), 0);
        assert_int_equal(rdma_set_option(two, RDMA_OPTION_ID, option, &yes, sizeof(yes)), 0);
    }
    assert_int_equal(bind_to(one, first, 0), 0);
    const int result = bind_to(two, second, rdma_get_src_port(one));
    const int error = errno;
    rdma_destroy_id(two);
    rdma_destroy_id(one);
    rdma_destroy_event_channel(channel);
    errno = error;
    return result;
}

/* Another program may use the port at the second address; then another port is tried. */
static void try_ports(const char *first, const char *second, int option, bool both)
{
    int result = -1;
    for (int tries = both ? 10 : 1; result != 0 && tries > 0; --tries)
        result = bind_both(first, second, option);
    if (both)
        assert_int_equal(result, 0);
    else
        expect_taken(result);
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
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct rdma_cm_id *ids[3];
    int yes = 1;
    for (int i = 0; i < 3; ++i) {
        ids[i] = new_id(channel, RDMA_PS_TCP);
        assert_int_equal(rdma_set_option(ids[i], RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes, sizeof(yes)), 0);
    }
    assert_int_equal(bind_to(ids[0], "127.0.0.1", 0), 0);
    const __be16 port = rdma_get_src_port(ids[0]);
    assert_int_equal(bind_to(ids[1], "127.0.0.1", port), 0);
    expect_taken(rdma_listen(ids[0], 1));
    assert_int_equal(rdma_destroy_id(ids[1]), 0);
    assert_int_equal(rdma_listen(ids[0], 1), 0);
    assert_int_equal(rdma_set_option(ids[0], RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &yes, sizeof(yes)), -1);
    expect_taken(bind_to(ids[2], "127.0.0.1", port));
    expect_taken(rdma_listen(ids[2], 1)); /* not at another port, either */
    assert_int_equal(bind_to(ids[2], "127.0.0.1", 0), 0);
    assert_int_equal(rdma_listen(ids[2], 1), 0);
    rdma_destroy_id(ids[0]);
    rdma_destroy_id(ids[2]);
    rdma_destroy_event_channel(channel);
}

/* Ports are TCP ports, so the port spaces are not separate. */
TEST(spaces_have_the_same_ports)
{
    skip_over_roce();
    struct rdma_event_channel *channel = rdma_create_event_channel();
    struct rdma_cm_id *one = new_id(channel, RDMA_PS_UDP), *two = new_id(channel, RDMA_PS_TCP);
    assert_int_equal(bind_to(one, "127.0.0.1", 0), 0);
    expect_taken(bind_to(two, "127.0.0.1", rdma_get_src_port(one)));
    rdma_destroy_id(one);
    rdma_destroy_id(two);
    rdma_destroy_event_channel(channel);
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

static void *get_event_of(void *channel)
{
    struct rdma_cm_event *event = NULL;
    rdma_get_cm_event(channel, &event);
    return NULL;
}

TEST(who_comes_to_a_destroyed_channel_waits)
{
    struct rdma_event_channel *channel = rdma_create_event_channel();
    assert_non_null(channel);
    rdma_destroy_event_channel(channel);
    pthread_t late;
    assert_int_equal(pthread_create(&late, NULL, get_event_of, channel), 0);
    struct timespec limit;
    clock_gettime(CLOCK_REALTIME, &limit);
    limit.tv_nsec += 100000000L;
    limit.tv_sec += limit.tv_nsec / 1000000000L;
    limit.tv_nsec %= 1000000000L;
    assert_int_equal(pthread_timedjoin_np(late, NULL, &limit), ETIMEDOUT);
    pthread_cancel(late);
    pthread_join(late, NULL);
}

int main(void)
{
    setenv("SOFTRDMA_PRIVATE_DATA", "exact", 1);
    return run_registered_tests();
}
