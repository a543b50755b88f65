// SPDX-License-Identifier: BSD-3-Clause
/* Many connections in succession, and the resources that they leak. */
#include "resources.h"
#include "support/memory_server.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static unsigned open_descriptors(void)
{
    return entries_in("/proc/self/fd", "");
}

/* Anonymous memory of this process that is in use. */
static long resident_kib(void)
{
    char line[128];
    long kib = -1;
    FILE *status = fopen("/proc/self/status", "re");
    CHECK(status != NULL);
    while (kib < 0 && fgets(line, sizeof(line), status))
        sscanf(line, "RssAnon: %ld", &kib);
    fclose(status);
    CHECK(kib > 0);
    return kib;
}

static bool memory_is_comparable(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
    return false; /* sanitizers keep freed memory */
#else
    return true;
#endif
}

#define WARM_UP 10
#define ROUNDS 200

struct usage {
    unsigned descriptors;
    long kib;
};

static struct usage usage_now(void)
{
    return (struct usage){open_descriptors(), resident_kib()};
}

static void check_no_growth(struct usage before)
{
    /* The device may close the descriptors of the last connection a moment later. */
    for (int64_t until = deadline(); open_descriptors() > before.descriptors; sleep_ms(1))
        CHECK(now_ms() < until);
    if (memory_is_comparable())
        CHECK(resident_kib() - before.kib < 2048);
}

/* Accepts one connection after another, and checks that none leaks resources. */
static void serve_rounds(struct side *self, const char *argument)
{
    struct usage before = {0};
    struct rpma_peer *peer = make_peer(self);
    struct rpma_ep *ep = make_ep(self, peer, NULL);
    for (int i = 0; i < WARM_UP + ROUNDS; ++i) {
        if (i == WARM_UP)
            before = usage_now();
        struct rpma_conn_req *req = next_request(self, ep, NULL);
        if (i % 5 == 4) {
            scope_drop(&self->scope, req);
        } else {
            struct rpma_conn *conn = connect_request(self, req, NULL);
            expect_event(conn, RPMA_CONN_ESTABLISHED);
            expect_end(conn);
            CHECK_OK(rpma_conn_disconnect(conn));
            scope_drop(&self->scope, conn);
        }
        send_line(self->link, "round over");
    }
    check_no_growth(before);
    send_line(self->link, "nothing left");
}

INTEGRATION_TEST(connections_leave_nothing_behind)
{
    needs_no_older_library();
    struct usage before = {0};
    struct server *server = start_server(self, "rounds", "-");
    struct rpma_peer *peer = make_peer(self);
    for (int i = 0; i < WARM_UP + ROUNDS; ++i) {
        if (i == WARM_UP)
            before = usage_now();
        struct region region = make_region(self, peer, 4096, USAGE_MEMORY);
        struct rpma_conn *conn = connect_request(self, new_request(self, peer, server->port, NULL), NULL);
        if (i % 5 == 4) {
            expect_event(conn, RPMA_CONN_REJECTED);
        } else {
            expect_event(conn, RPMA_CONN_ESTABLISHED);
            CHECK_OK(rpma_conn_disconnect(conn));
            expect_end(conn);
        }
        scope_drop(&self->scope, conn);
        scope_drop(&self->scope, region.mr);
        expect_line(server->link, "round over");
    }
    expect_line(server->link, "nothing left");
    check_no_growth(before);
}

/* Reports its open sockets, event descriptors and devices. Descriptor 0 is the link to the test. */
static void serve_nothing(struct side *self, const char *argument)
{
    int inherited = 0;
    for (int fd = 3; fd < 1024; ++fd) {
        char name[32], target[64] = "";
        snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
        ssize_t length = readlink(name, target, sizeof(target) - 1);
        inherited += length > 0 && (!strncmp(target, "socket:", 7) || !strncmp(target, "anon_inode:", 11) ||
                                           !strncmp(target, "/dev/infiniband", 15));
    }
    send_line(self->link, "inherited %d", inherited);
}

INTEGRATION_TEST(a_program_started_during_a_connection_inherits_no_descriptor)
{
    struct session session = open_session(self, 4096, NULL);
    make_ep(self, session.peer, NULL);
    struct server *heir = start_process(self, self->addr, "heir", "-");
    expect_line(heir->link, "inherited 0");
}

INTEGRATION_MAIN_WITH_ROLES({"rounds", serve_rounds}, {"heir", serve_nothing})
