/* SPDX-License-Identifier: BSD-3-Clause */
/* TCP clients that violate the protocol lose their own connection. Other connections are not affected. */
#include "remote.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>

/* Without assertions, which a process without tests cannot use. */
static int call_port(uint16_t port)
{
    const struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = port};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, (const struct sockaddr *)&to, sizeof(to)) != 0)
        _exit(1);
    return fd;
}

static int call(struct pair *p)
{
    return call_port(rdma_get_src_port(p->listener));
}

static void expect_hang_up(int fd)
{
    char byte;
    expect_readable(fd);
    assert_true(recv(fd, &byte, 1, 0) <= 0);
    close(fd);
}

static void expect_unharmed(struct pair *p)
{
    fill(p->client.memory, 64, 1);
    post_and_expect(&p->client, IBV_WR_RDMA_WRITE, 1, 0, 64, &p->server, 0, IBV_WC_SUCCESS);
    expect_no_event(p->listen_channel);
}

static void send_all(int fd, const void *bytes, size_t size)
{
    assert_int_equal(send(fd, bytes, size, MSG_NOSIGNAL), size);
}

enum {
    crowd = 1200,              /* above the default limit of descriptors */
    max_descriptors = 1024,    /* limit of the program under test */
    max_unauthenticated = 128, /* limit of unauthenticated connections at all ports of the program */
};

static int ready[2]; /* pipe */

/* Connects to two ports that arrive in the pipe, sends no data and stays connected. */
static void connect_crowd(int in)
{
    uint16_t ports[2];
    const char byte = 0;
    if (read(in, ports, sizeof(ports)) != sizeof(ports))
        _exit(1);
    for (int i = 0; i < 2 * crowd; ++i)
        call_port(ports[i / crowd]);
    if (write(ready[1], &byte, 1) != 1)
        _exit(1);
    for (;;)
        pause();
}

static void limit_descriptors(rlim_t most)
{
    struct rlimit limit;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    limit.rlim_cur = most;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

static void serve_beside_a_crowd(void)
{
    struct pair p = {0};
    struct pair other;
    char byte;
    setenv("SOFTRDMA_CM_TIMEOUT_MS", "20000", 1);
    limit_descriptors(2 * crowd + 100);
    assert_int_equal(pipe(ready), 0);
    const struct child clients = start_child(connect_crowd);
    limit_descriptors(max_descriptors);
    open_pair(&other, NULL);
    open_listener(&p, "127.0.0.1");
    struct ibv_qp *unmanaged = create_plain_qp(other.client.pd, other.client.cq, IBV_QPT_RC, 1);
    const uint16_t numbers[2] = {rdma_get_src_port(p.listener), htons((uint16_t)(unmanaged->qp_num >> 8))};
    const unsigned before = entries_in("/proc/self/fd", "");
    assert_int_equal(write(clients.out, numbers, sizeof(numbers)), sizeof(numbers));
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_true(entries_in("/proc/self/fd", "") <= before + max_unauthenticated + 2);
    resolve_client(&p, NULL);
    connect_client(&p, NULL);
    accept_request(&p, take_request(&p), NULL);
    assert_int_equal(expect_event(p.client.channel, RDMA_CM_EVENT_ESTABLISHED), 0);
    assert_int_equal(expect_event(p.listen_channel, RDMA_CM_EVENT_ESTABLISHED), 0);
    AWAIT(entries_in("/proc/self/fd", "") <= before + 32); /* silent peers are disconnected */
    kill_child(clients.pid);
    assert_int_equal(ibv_destroy_qp(unmanaged), 0);
    close_pair(&p);
    close_pair(&other);
}

/* The first test: a child of a process that used the device cannot release what that process has. */
TEST(many_silent_clients_do_not_block_connections)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_max < 2 * crowd + 100)
        skip_because("limit of descriptors too low");
    in_own_process(serve_beside_a_crowd);
}

static void expect_rejected(struct pair *p, const void *bytes, size_t size)
{
    int fd = call(p);
    send_all(fd, bytes, size);
    expect_hang_up(fd);
    expect_unharmed(p);
}

/* A well-formed WRITE with a valid key, sent on a connection that belongs to no queue pair. */
PAIR_TEST(data_frames_need_an_established_connection, connected)
{
    uint8_t frame[4 + 12 + 16 + 8] = {0, 0, 0, 36, 0x0a, 0, 0xff, 0xff};
    const uint32_t qpn = htonl(p->server.qp->qp_num), rkey = htonl(p->server.mr->rkey), length = htonl(8);
    const uint64_t addr = htobe64((uintptr_t)p->server.memory + 1024);
    memcpy(frame + 8, &qpn, 4);
    memcpy(frame + 16, &addr, 8);
    memcpy(frame + 24, &rkey, 4);
    memcpy(frame + 28, &length, 4);
    memset(frame + 32, 0xff, 8);
    expect_rejected(p, frame, sizeof(frame));
    for (size_t i = 0; i < 8; ++i)
        assert_int_equal(p->server.memory[1024 + i], 0);
}

PAIR_TEST(clients_without_the_protocol_are_disconnected, connected)
{
    expect_rejected(p, "GET / HTTP/1.1\r\n\r\n", 18);
    uint8_t frame[4 + 12 + 40] = {0, 0, 0, 52, 0xc8, 0, 0xff, 0xff};
    memcpy(frame + 16, "softrdmb\2", 9); /* a request with another magic number */
    expect_rejected(p, frame, sizeof(frame));
    expect_rejected(p, frame, 0); /* a silent client */
}

/* Sends a complete connection request, and no confirmation of the reply. */
TEST(an_accepted_client_must_confirm_in_time)
{
    PAIR p = {0};
    open_listener(&p, "127.0.0.1");
    uint8_t frame[4 + 12 + 40] = {0, 0, 0, 52, 0xc8, 0, 0xff, 0xff};
    memcpy(frame + 16, "softrdma\2", 9);
    int fd = call(&p);
    send_all(fd, frame, sizeof(frame));
    accept_request(&p, take_request(&p), NULL);
    assert_int_equal(post_receive(&p.server, 1, 0, 64), 0);
    assert_int_equal(expect_event(p.listen_channel, RDMA_CM_EVENT_UNREACHABLE), -ETIMEDOUT);
    expect_completion(p.server.cq, 1, IBV_WC_WR_FLUSH_ERR);
    close(fd);
}

PAIR_TEST(clients_that_disconnect_immediately_are_harmless, connected)
{
    for (unsigned i = 0; i < 100; ++i)
        close(call(p));
    expect_unharmed(p);
}
