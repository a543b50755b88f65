// SPDX-License-Identifier: BSD-3-Clause
#include "explain.h"

#include <arpa/inet.h>
#include <err.h>
#include <errno.h>
#include <netdb.h>
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

int explain_device(const struct arguments *args, int ret)
{
    if (is_wildcard(args->addr)) {
        warnx("%s: wildcard address (specify the address of one interface)", args->addr);
        return STATUS_FAILED;
    }
    if (ret == RPMA_E_PROVIDER && errno == ENODEV) {
        warnx("%s: no RDMA device found (specify the address of an RDMA interface, or run this under `softrdma run "
              "--`)",
                args->addr);
        return STATUS_NO_DEVICE;
    }
    if (ret != 0) {
        warnx("%s: no RDMA device found: %s (check the address)", args->addr, reason(ret));
        return STATUS_FAILED;
    }
    return STATUS_OK;
}

int explain_mr_reg(size_t size, int ret)
{
    if (ret == RPMA_E_PROVIDER && errno == ENOMEM) {
        warnx("cannot lock %zu bytes of memory for the device (raise the limit of `ulimit -l`)", size);
        return STATUS_FAILED;
    }
    return check("rpma_mr_reg", ret);
}

static int announce(const struct arguments *args)
{
    warnx("listening on %s port %s (start the client with the same address and port)", args->addr, args->port);
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

int explain_listening(const struct arguments *args, int ret)
{
    if (ret == 0)
        return announce(args);

    warnx("cannot listen on %s port %s: %s (choose a free port and an address of this machine)", args->addr, args->port,
            reason(ret));
    return STATUS_FAILED;
}

int explain_request(const struct arguments *args, int ret)
{
    if (ret == 0)
        return STATUS_OK;

    warnx("cannot reach %s port %s: %s (check the address and the port)", args->addr, args->port, reason(ret));
    return STATUS_FAILED;
}

/* Waits a moment unless the first rejection was args->retry_s seconds ago. */
static bool may_try_again(const struct arguments *args, enum rpma_conn_event event, int64_t *deadline_ms)
{
    const bool is_first = *deadline_ms == 0;
    if (is_first)
        *deadline_ms = now_ms() + (int64_t)args->retry_s * 1000;
    if (event != RPMA_CONN_REJECTED || now_ms() >= *deadline_ms)
        return false;

    if (is_first)
        warnx("no server at %s port %s yet, retrying for %d s", args->addr, args->port, args->retry_s);
    (void)nanosleep(&retry_interval, NULL);
    return true;
}

/* Returns whether a program accepts TCP connections at the address. Called only if no RDMA connection is possible. */
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

/* Reports why a client stops trying: no listener, or another service on the port. */
static int explain_refusal(const struct arguments *args, enum rpma_conn_event event)
{
    if (is_tcp_service(args))
        warnx("%s port %s: no server accepts connections, but a program listens: another service, or a server that "
              "accepts no more clients",
                args->addr, args->port);
    else if (event == RPMA_CONN_REJECTED)
        warnx("%s port %s: no server accepts connections (start the server first, with the same address and port)",
                args->addr, args->port);
    else
        warnx("no connection to %s port %s: %s (check that the machine is up and reachable)", args->addr, args->port,
                rpma_utils_conn_event_2str(event));
    return STATUS_FAILED;
}

bool try_again(const struct arguments *args, enum rpma_conn_event event, int64_t *deadline_ms, struct rpma_conn **conn,
        int *status)
{
    if (event == RPMA_CONN_ESTABLISHED)
        return false;

    (void)rpma_conn_delete(conn); /* the error of the attempt is reported instead */
    if (*status != STATUS_OK)
        return false;
    if (may_try_again(args, event, deadline_ms))
        return true;
    *status = explain_refusal(args, event);
    return false;
}
