// SPDX-License-Identifier: BSD-3-Clause
#include "connection.h"

#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <netdb.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "status.h"
#include "wait.h"

static const struct timespec retry_interval = {.tv_nsec = 200000000L};

static int is_wildcard(const char *addr)
{
    struct in_addr ipv4;
    struct in6_addr ipv6;

    return (inet_pton(AF_INET, addr, &ipv4) == 1 && ipv4.s_addr == htonl(INADDR_ANY)) ||
           (inet_pton(AF_INET6, addr, &ipv6) == 1 && IN6_IS_ADDR_UNSPECIFIED(&ipv6));
}

int open_peer(const struct arguments *args, enum rpma_util_ibv_context_type side, struct rpma_peer **peer)
{
    if (is_wildcard(args->addr)) {
        warnx("%s stands for every interface and so for no device: give the address of one interface", args->addr);
        return STATUS_FAILED;
    }

    struct ibv_context *device = NULL;
    errno = 0;
    const int ret = rpma_utils_get_ibv_context(args->addr, side, &device);
    if (ret == RPMA_E_PROVIDER && errno == ENODEV) {
        warnx("no RDMA device for %s: give the address of an RDMA interface, or run this under `softrdma run --`",
                args->addr);
        return STATUS_NO_DEVICE;
    }
    if (ret != 0) {
        warnx("%s leads to no RDMA device: %s: check the address", args->addr, reason(ret));
        return STATUS_FAILED;
    }
    return check("rpma_peer_new", rpma_peer_new(device, peer));
}

static int announce(const struct arguments *args)
{
    warnx("listening on %s port %s: start the client with the same address and port", args->addr, args->port);
    if (args->ready_fd < 0)
        return STATUS_OK;

    static const char line[] = "ready\n";
    const ssize_t size = sizeof(line) - 1;
    if (write(args->ready_fd, line, (size_t)size) != size || close(args->ready_fd) != 0) {
        warn("--ready-fd %d", args->ready_fd);
        return STATUS_FAILED;
    }
    return STATUS_OK;
}

int listen_for_clients(const struct arguments *args, struct rpma_peer *peer, struct rpma_ep **ep)
{
    errno = 0;
    const int ret = rpma_ep_listen(peer, args->addr, args->port, ep);
    if (ret != 0) {
        warnx("cannot listen on %s port %s: %s: choose a free port and an address of this machine", args->addr,
                args->port, reason(ret));
        return STATUS_FAILED;
    }
    return announce(args);
}

int take_request(
        const struct arguments *args, struct rpma_ep *ep, const struct rpma_conn_cfg *cfg, struct rpma_conn_req **req)
{
    struct pollfd fd = {.events = POLLIN};
    int status = check("rpma_ep_get_fd", rpma_ep_get_fd(ep, &fd.fd));
    if (status == STATUS_OK)
        status = wait_readable(&fd, 1, args->timeout_s, "client");
    return status ? status : check("rpma_ep_next_conn_req", rpma_ep_next_conn_req(ep, cfg, req));
}

static int next_event(const struct arguments *args, struct rpma_conn *conn, enum rpma_conn_event *event)
{
    struct pollfd fd = {.events = POLLIN};
    int status = check("rpma_conn_get_event_fd", rpma_conn_get_event_fd(conn, &fd.fd));
    if (status == STATUS_OK)
        status = wait_readable(&fd, 1, args->timeout_s, "answer from the other side");
    return status ? status : check("rpma_conn_next_event", rpma_conn_next_event(conn, event));
}

static int expect_event(const struct arguments *args, struct rpma_conn *conn, enum rpma_conn_event expected)
{
    enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
    const int status = next_event(args, conn, &event);
    if (status == STATUS_OK && event != expected) {
        warnx("the connection reports %s instead of %s: see what the other side says",
                rpma_utils_conn_event_2str(event), rpma_utils_conn_event_2str(expected));
        return STATUS_FAILED;
    }
    return status;
}

int wait_until_established(const struct arguments *args, struct rpma_conn *conn)
{
    return expect_event(args, conn, RPMA_CONN_ESTABLISHED);
}

int accept_one_client(const struct arguments *args, struct rpma_peer *peer, const struct rpma_conn_cfg *cfg,
        const struct rpma_conn_private_data *pdata, inspect_request *inspect, void *context, struct rpma_conn **conn)
{
    struct rpma_ep *ep = NULL;
    struct rpma_conn_req *req = NULL;

    int status = listen_for_clients(args, peer, &ep);
    if (status == STATUS_OK)
        status = take_request(args, ep, cfg, &req);
    if (status == STATUS_OK && inspect)
        status = inspect(req, context);
    if (status == STATUS_OK)
        status = check("rpma_conn_req_connect", rpma_conn_req_connect(&req, pdata, conn));
    if (status == STATUS_OK)
        status = wait_until_established(args, *conn);

    status |= check("rpma_conn_req_delete", rpma_conn_req_delete(&req));
    status |= check("rpma_ep_shutdown", rpma_ep_shutdown(&ep));
    return status;
}

/* Whether some program accepts TCP connections there. Asked only when there is no RDMA connection to be had. */
static int is_tcp_service(const struct arguments *args)
{
    const struct addrinfo wanted = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    if (getaddrinfo(args->addr, args->port, &wanted, &found) != 0)
        return 0;

    const int fd = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const struct timeval limit = {.tv_sec = 1};
    int is_there = fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit)) == 0 &&
                   connect(fd, found->ai_addr, found->ai_addrlen) == 0;
    if (fd >= 0)
        (void)close(fd);
    freeaddrinfo(found);
    return is_there;
}

static int give_up(const struct arguments *args, const char *complaint)
{
    if (is_tcp_service(args))
        warnx("no server accepts connections at %s port %s, where a program listens: it is another service, or a "
              "server "
              "that takes no more clients",
                args->addr, args->port);
    else
        warnx("%s", complaint);
    return STATUS_FAILED;
}

/* One attempt. *event says how it ended; only after RPMA_CONN_ESTABLISHED there is a *conn. */
static int try_to_connect(const struct arguments *args, struct rpma_peer *peer, const struct rpma_conn_cfg *cfg,
        const struct rpma_conn_private_data *pdata, struct rpma_conn **conn, enum rpma_conn_event *event)
{
    struct rpma_conn_req *req = NULL;
    errno = 0;
    const int ret = rpma_conn_req_new(peer, args->addr, args->port, cfg, &req);
    if (ret != 0) {
        warnx("cannot reach %s port %s: %s: check the address and the port", args->addr, args->port, reason(ret));
        return STATUS_FAILED;
    }
    int status = check("rpma_conn_req_connect", rpma_conn_req_connect(&req, pdata, conn));
    if (status == STATUS_OK)
        status = next_event(args, *conn, event);
    if (*event != RPMA_CONN_ESTABLISHED)
        (void)rpma_conn_delete(conn); /* the failure of the attempt is what matters */
    return status;
}

int connect_to_server(const struct arguments *args, struct rpma_peer *peer, const struct rpma_conn_cfg *cfg,
        const struct rpma_conn_private_data *pdata, struct rpma_conn **conn)
{
    char complaint[512];
    const int64_t deadline_ms = now_ms() + (int64_t)args->retry_s * 1000;

    for (int attempt = 0;; ++attempt) {
        enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
        const int status = try_to_connect(args, peer, cfg, pdata, conn, &event);
        if (status != STATUS_OK || event == RPMA_CONN_ESTABLISHED)
            return status;

        if (event != RPMA_CONN_REJECTED) {
            (void)snprintf(complaint, sizeof(complaint),
                    "no connection to %s port %s: it reports %s: check that the machine is up and reachable",
                    args->addr, args->port, rpma_utils_conn_event_2str(event));
            return give_up(args, complaint);
        }
        if (now_ms() >= deadline_ms) {
            (void)snprintf(complaint, sizeof(complaint),
                    "no server accepts connections at %s port %s: start the server first, with the same address and "
                    "port",
                    args->addr, args->port);
            return give_up(args, complaint);
        }
        if (attempt == 0)
            warnx("no server at %s port %s yet, retrying for %d s", args->addr, args->port, args->retry_s);
        (void)nanosleep(&retry_interval, NULL);
    }
}

int disconnect(const struct arguments *args, struct rpma_conn *conn)
{
    const int status = check("rpma_conn_disconnect", rpma_conn_disconnect(conn));
    return status ? status : expect_event(args, conn, RPMA_CONN_CLOSED);
}

int wait_for_disconnect(const struct arguments *args, struct rpma_conn *conn)
{
    const int status = expect_event(args, conn, RPMA_CONN_CLOSED);
    return status ? status : check("rpma_conn_disconnect", rpma_conn_disconnect(conn));
}
