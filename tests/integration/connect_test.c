// SPDX-License-Identifier: BSD-3-Clause
/* Establishing connections, and connections that are rejected. */
#include "support/memory_server.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#define ALWAYS RPMA_F_COMPLETION_ALWAYS

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

INTEGRATION_MAIN(NULL)
