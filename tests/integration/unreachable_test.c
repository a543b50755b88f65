// SPDX-License-Identifier: BSD-3-Clause
/* A server that does not respond. The device determines the duration, so this is a separate program. */
#include "support/rdma.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>

/* Listens, but does not process requests. */
static void serve_silently(struct side *self, const char *argument)
{
    char port[8];
    make_ep(self, make_peer(self), port);
    expect_line(self->link, "end");
}

static int resume_server(void *object)
{
    struct server *server = object;
    if (kill(server->link->pid, SIGCONT))
        return -1;
    send_line(server->link, "end");
    return 0;
}

INTEGRATION_TEST(a_server_that_does_not_answer_is_unreachable)
{
    if (!getenv("RPMA_TEST_QUICK_UNREACHABLE"))
        skip_because("RPMA_TEST_QUICK_UNREACHABLE does not promise that the device gives up soon");
    struct server *server = start_server(self, "silent", "-");
    scope_add(&self->scope, resume_server, server);
    CHECK_EQ(kill(server->link->pid, SIGSTOP), 0);
    int status = 0;
    CHECK_EQ(waitpid(server->link->pid, &status, WUNTRACED), server->link->pid);
    CHECK(WIFSTOPPED(status));
    struct rpma_peer *peer = make_peer(self);
    struct rpma_conn *conn = connect_request(self, new_request(self, peer, server->port, NULL), NULL);
    expect_event(conn, RPMA_CONN_UNREACHABLE);
}

static const struct role roles[] = {{"silent", serve_silently}, {NULL, NULL}};

INTEGRATION_MAIN(roles)
