// SPDX-License-Identifier: BSD-3-Clause
#include "rdma.h"

#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <time.h>

#define QUIET_MS 50
#define MIN_PAUSE_NS 50000
#define MAX_PAUSE_NS 3000000

const char *case_address;

struct ibv_context *device(void)
{
    struct ibv_context *context = NULL;
    assert_done(rpma_utils_get_ibv_context(case_address, RPMA_UTIL_IBV_CONTEXT_LOCAL, &context));
    assert_non_null(context);
    return context;
}

struct ibv_device_attr_ex device_attributes(void)
{
    struct ibv_device_attr_ex attributes = {0};
    assert_int_equal(ibv_query_device_ex(device(), NULL, &attributes), 0);
    return attributes;
}

bool has_infiniband_limits(void)
{
    return device()->device->transport_type == IBV_TRANSPORT_IB;
}

struct rpma_peer *new_peer(void)
{
    struct rpma_peer *peer = NULL;
    assert_done(rpma_peer_new(device(), &peer));
    assert_non_null(peer);
    return peer;
}

struct region new_region(struct rpma_peer *peer, size_t size, int usage)
{
    struct region region = {.size = size};
    region.ptr = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(region.ptr != MAP_FAILED);
    assert_done(rpma_mr_reg(peer, region.ptr, size, usage, &region.mr));
    assert_non_null(region.mr);
    return region;
}

struct rpma_mr_remote *remote_of(struct region region)
{
    return forged_remote_of(region, 0, 0);
}

struct rpma_mr_remote *forged_remote_of(struct region region, size_t byte, int bits)
{
    unsigned char descriptor[DESCRIPTOR_SIZE];
    assert_done(rpma_mr_get_descriptor(region.mr, descriptor));
    descriptor[byte] = (unsigned char)(descriptor[byte] ^ bits);
    struct rpma_mr_remote *remote = NULL;
    assert_done(rpma_mr_remote_from_descriptor(descriptor, sizeof(descriptor), &remote));
    return remote;
}

static unsigned char pattern(size_t i, unsigned seed)
{
    return seed ? (unsigned char)(seed * 31 + i * 7 + (i >> 8) + (i >> 16)) : 0;
}

void fill(void *ptr, size_t length, unsigned seed)
{
    unsigned char *bytes = ptr;
    for (size_t i = 0; i < length; ++i)
        bytes[i] = pattern(i, seed);
}

void assert_filled(const void *ptr, size_t length, unsigned seed)
{
    const unsigned char *bytes = ptr;
    for (size_t i = 0; i < length; ++i) {
        if (bytes[i] != pattern(i, seed))
            fail_msg("byte %zu of %zu is %#x, not %#x", i, length, bytes[i], pattern(i, seed));
    }
}

struct rpma_conn_cfg *new_cfg(void)
{
    struct rpma_conn_cfg *cfg = NULL;
    assert_done(rpma_conn_cfg_new(&cfg));
    assert_non_null(cfg);
    return cfg;
}

struct rpma_srq *new_srq(struct rpma_peer *peer, uint32_t rq_size, uint32_t rcq_size)
{
    struct rpma_srq_cfg *cfg = NULL;
    struct rpma_srq *srq = NULL;
    assert_done(rpma_srq_cfg_new(&cfg));
    assert_done(rpma_srq_cfg_set_rq_size(cfg, rq_size));
    assert_done(rpma_srq_cfg_set_rcq_size(cfg, rcq_size));
    assert_done(rpma_srq_new(peer, cfg, &srq));
    assert_done(rpma_srq_cfg_delete(&cfg));
    return srq;
}

void pick_port(char port[8])
{
    struct addrinfo hints = {.ai_flags = AI_NUMERICHOST | AI_PASSIVE, .ai_socktype = SOCK_STREAM};
    struct addrinfo *info = NULL;
    assert_int_equal(getaddrinfo(case_address, "0", &hints, &info), 0);
    int fd = socket(info->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_storage bound;
    socklen_t length = sizeof(bound);
    assert_int_equal(bind(fd, info->ai_addr, info->ai_addrlen), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&bound, &length), 0);
    close(fd);
    freeaddrinfo(info);
    in_port_t number = bound.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&bound)->sin6_port
                                                   : ((struct sockaddr_in *)&bound)->sin_port;
    snprintf(port, 8, "%u", ntohs(number));
}

struct listener listen_somewhere(struct rpma_peer *peer)
{
    struct listener listener = {.peer = peer};
    int result;
    int attempts = 20; /* another process may take the port */
    do {
        pick_port(listener.port);
        result = rpma_ep_listen(peer, case_address, listener.port, &listener.ep);
    } while (result == RPMA_E_PROVIDER && errno == EADDRINUSE && --attempts);
    assert_rpma(result, 0);
    return listener;
}

struct rpma_conn_req *new_request(struct rpma_peer *peer, const char *port, const struct rpma_conn_cfg *cfg)
{
    struct rpma_conn_req *req = NULL;
    assert_done(rpma_conn_req_new(peer, case_address, port, cfg, &req));
    assert_non_null(req);
    return req;
}

struct rpma_conn_req *next_request(struct rpma_ep *ep, const struct rpma_conn_cfg *cfg)
{
    struct rpma_conn_req *req = NULL;
    assert_done(rpma_ep_next_conn_req(ep, cfg, &req));
    assert_non_null(req);
    return req;
}

struct rpma_conn *connect_request(struct rpma_conn_req *req, const struct rpma_conn_private_data *pdata)
{
    struct rpma_conn *conn = NULL;
    assert_done(rpma_conn_req_connect(&req, pdata, &conn));
    assert_null(req);
    assert_non_null(conn);
    return conn;
}

struct rpma_conn *call_listener(const struct listener *listener)
{
    return connect_request(new_request(listener->peer, listener->port, NULL), NULL);
}

static enum rpma_conn_event next_event(struct rpma_conn *conn)
{
    enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
    assert_done(rpma_conn_next_event(conn, &event));
    return event;
}

void expect_event(struct rpma_conn *conn, enum rpma_conn_event expected)
{
    assert_string_equal(rpma_utils_conn_event_2str(next_event(conn)), rpma_utils_conn_event_2str(expected));
}

void expect_end(struct rpma_conn *conn)
{
    enum rpma_conn_event event = next_event(conn);
    if (event != RPMA_CONN_CLOSED && event != RPMA_CONN_LOST)
        fail_msg("\"%s\" instead of the end of the connection", rpma_utils_conn_event_2str(event));
}

struct rpma_cq *main_cq(const struct rpma_conn *conn)
{
    struct rpma_cq *cq = NULL;
    assert_done(rpma_conn_get_cq(conn, &cq));
    assert_non_null(cq);
    return cq;
}

struct rpma_cq *receive_cq(const struct rpma_conn *conn)
{
    struct rpma_cq *rcq = (struct rpma_cq *)(uintptr_t)64;
    assert_done(rpma_conn_get_rcq(conn, &rcq));
    return rcq;
}

struct ibv_wc next_completion(struct rpma_cq *cq)
{
    struct ibv_wc wc = {0};
    struct timespec pause = {.tv_nsec = MIN_PAUSE_NS};
    int result;
    while ((result = rpma_cq_get_wc(cq, 1, &wc, NULL)) == RPMA_E_NO_COMPLETION) {
        nanosleep(&pause, NULL);
        if (pause.tv_nsec < MAX_PAUSE_NS)
            pause.tv_nsec *= 2;
    }
    assert_rpma(result, 0);
    return wc;
}

struct ibv_wc expect_success(struct rpma_cq *cq, enum ibv_wc_opcode opcode, const void *op_context)
{
    struct ibv_wc wc = expect_failure(cq, IBV_WC_SUCCESS, op_context);
    assert_int_equal(wc.opcode, opcode);
    return wc;
}

struct ibv_wc expect_failure(struct rpma_cq *cq, enum ibv_wc_status status, const void *op_context)
{
    struct ibv_wc wc = next_completion(cq);
    if (wc.status != status)
        fail_msg("completion with '%s', not '%s'", ibv_wc_status_str(wc.status), ibv_wc_status_str(status));
    assert_int_equal(wc.wr_id, (uintptr_t)op_context);
    return wc;
}

static void expect_either(struct rpma_cq *cq, int opcode, int native_opcode, const void *op_context)
{
    struct ibv_wc wc = expect_failure(cq, IBV_WC_SUCCESS, op_context);
    if ((int)wc.opcode != opcode && (int)wc.opcode != native_opcode)
        fail_msg("completion with opcode %d, not %d or %d", (int)wc.opcode, opcode, native_opcode);
}

void expect_flushed(struct rpma_cq *cq, const void *op_context)
{
    expect_either(cq, IBV_WC_RDMA_READ, 8 /* IBV_WC_FLUSH since rdma-core 45 */, op_context);
}

void expect_atomically_written(struct rpma_cq *cq, const void *op_context)
{
    expect_either(cq, IBV_WC_RDMA_WRITE, 9 /* IBV_WC_ATOMIC_WRITE since rdma-core 44 */, op_context);
}

#define DESCRIPTOR_FUNCTION(name, object, getter)                                                                      \
    int name(const struct object *of)                                                                                  \
    {                                                                                                                  \
        int fd = -1;                                                                                                   \
        assert_done(getter(of, &fd));                                                                                  \
        assert_true(fd >= 0);                                                                                          \
        return fd;                                                                                                     \
    }
DESCRIPTOR_FUNCTION(event_fd, rpma_conn, rpma_conn_get_event_fd)
DESCRIPTOR_FUNCTION(cq_fd, rpma_cq, rpma_cq_get_fd)
DESCRIPTOR_FUNCTION(ep_fd, rpma_ep, rpma_ep_get_fd)

void make_nonblocking(int fd)
{
    int flags = fcntl(fd, F_GETFL);
    assert_true(flags >= 0);
    assert_int_equal(fcntl(fd, F_SETFL, flags | O_NONBLOCK), 0);
}

void await_readable(int fd)
{
    struct pollfd entry = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&entry, 1, -1), 1);
    assert_true(entry.revents & POLLIN);
}

void assert_not_readable(int fd)
{
    struct pollfd entry = {.fd = fd, .events = POLLIN};
    assert_int_equal(poll(&entry, 1, QUIET_MS), 0);
}

static struct pair establish(struct pair pair, const struct rpma_conn_cfg *client, const struct rpma_conn_cfg *server)
{
    pair.client.conn = connect_request(new_request(pair.peer, pair.listener.port, client), NULL);
    pair.server.conn = connect_request(next_request(pair.listener.ep, server), NULL);
    expect_event(pair.client.conn, RPMA_CONN_ESTABLISHED);
    expect_event(pair.server.conn, RPMA_CONN_ESTABLISHED);
    pair.client.cq = main_cq(pair.client.conn);
    pair.server.cq = main_cq(pair.server.conn);
    return pair;
}

struct pair connect_pair_with(
        struct rpma_peer *peer, const struct rpma_conn_cfg *client, const struct rpma_conn_cfg *server)
{
    struct pair pair = {.peer = peer, .listener = listen_somewhere(peer)};
    pair.client.memory = new_region(peer, MEMORY_SIZE, USAGE_ALL);
    pair.server.memory = new_region(peer, MEMORY_SIZE, USAGE_ALL);
    pair.client.remote = remote_of(pair.server.memory);
    pair.server.remote = remote_of(pair.client.memory);
    return establish(pair, client, server);
}

struct pair connect_pair(void)
{
    return connect_pair_with(new_peer(), NULL, NULL);
}

struct pair connect_again(const struct pair *pair)
{
    return establish(*pair, NULL, NULL);
}

void disconnect(struct pair *pair)
{
    assert_done(rpma_conn_disconnect(pair->client.conn));
    expect_event(pair->server.conn, RPMA_CONN_CLOSED);
    assert_done(rpma_conn_disconnect(pair->server.conn));
    expect_event(pair->client.conn, RPMA_CONN_CLOSED);
}
