// SPDX-License-Identifier: BSD-3-Clause
/* Use of the device's native flush and atomic write, also with peers that emulate them. */
#include "support/memory_server.h"

#include <stdlib.h>
#include <sys/stat.h>

#define MEMORY_SIZE 65536
#define ALWAYS RPMA_F_COMPLETION_ALWAYS
#define ON_ERROR RPMA_F_COMPLETION_ON_ERROR
#define USAGE_PERSISTENT (USAGE_MEMORY | RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT)
#define NATIVE_FLUSH ((enum ibv_wc_opcode)8)
#define NATIVE_ATOMIC_WRITE ((enum ibv_wc_opcode)9)

static void choose_flush_method(const char *method)
{
    CHECK_EQ(method ? setenv("RPMA_FLUSH_METHOD", method, 1) : unsetenv("RPMA_FLUSH_METHOD"), 0);
}

/* Connects to memory of a server. Each side uses its flush method; NULL means its default. */
static struct session open_between(
        struct side *self, const char *client_method, const char *server_method, const char *path)
{
    choose_flush_method(server_method);
    struct server *server = start_server(
            self, "memory", "%d %d %s 4096", MEMORY_SIZE, path ? USAGE_PERSISTENT : USAGE_MEMORY, path ? path : "-");
    choose_flush_method(client_method);
    struct session session = open_session_with(self, server, MEMORY_SIZE, NULL);
    choose_flush_method(NULL);
    return session;
}

static void write_and_flush(
        struct session *session, enum rpma_flush_type type, enum ibv_wc_opcode expected, unsigned seed)
{
    fill_pattern(session->local.ptr, MEMORY_SIZE, seed);
    CHECK_OK(rpma_write(session->conn, session->remote, 0, session->local.mr, 0, MEMORY_SIZE, ON_ERROR, NULL));
    CHECK_OK(rpma_flush(session->conn, session->remote, 0, MEMORY_SIZE, type, ALWAYS, session));
    expect_completion(session->cq, expected, session);
    ask(session->server->link, "check 0 %d %u", MEMORY_SIZE, seed);
}

static void write_atomically(struct session *session, enum ibv_wc_opcode expected)
{
    char word[8];
    fill_pattern(word, sizeof(word), 77);
    CHECK_OK(rpma_atomic_write(session->conn, session->remote, 4096, word, ALWAYS, &word));
    expect_completion(session->cq, expected, &word);
    ask(session->server->link, "check 4096 8 77");
}

static const char *pmem(void)
{
    const char *path = getenv("RPMA_VM_PMEM_PATH");
    struct stat info;
    if (!path || stat(path, &info) || !S_ISCHR(info.st_mode))
        skip_because("RPMA_VM_PMEM_PATH names no PMem device");
    return path;
}

INTEGRATION_TEST(the_device_flushes_to_visibility)
{
    struct session session = open_between(self, NULL, NULL, NULL);
    for (unsigned seed = 1; seed < 5; ++seed)
        write_and_flush(&session, RPMA_FLUSH_TYPE_VISIBILITY, NATIVE_FLUSH, seed);
}

INTEGRATION_TEST(the_device_flushes_to_persistence)
{
    struct session session = open_between(self, NULL, NULL, pmem());
    for (unsigned seed = 1; seed < 5; ++seed)
        write_and_flush(&session, RPMA_FLUSH_TYPE_PERSISTENT, NATIVE_FLUSH, seed);
}

INTEGRATION_TEST(the_device_writes_atomically)
{
    struct session session = open_between(self, NULL, NULL, NULL);
    write_atomically(&session, NATIVE_ATOMIC_WRITE);
}

INTEGRATION_TEST(emulation_is_used_if_configured)
{
    struct session session = open_between(self, "emulated", "emulated", pmem());
    write_and_flush(&session, RPMA_FLUSH_TYPE_VISIBILITY, IBV_WC_RDMA_READ, 1);
    write_and_flush(&session, RPMA_FLUSH_TYPE_PERSISTENT, IBV_WC_RDMA_READ, 2);
    write_atomically(&session, NATIVE_ATOMIC_WRITE);
}

INTEGRATION_TEST(a_peer_that_emulates_flushes_at_one_that_does_not)
{
    struct session session = open_between(self, "emulated", "native", pmem());
    write_and_flush(&session, RPMA_FLUSH_TYPE_VISIBILITY, IBV_WC_RDMA_READ, 1);
    write_and_flush(&session, RPMA_FLUSH_TYPE_PERSISTENT, IBV_WC_RDMA_READ, 2);
}

INTEGRATION_TEST(a_native_peer_flushes_at_one_that_emulates)
{
    struct session session = open_between(self, "native", "emulated", pmem());
    write_and_flush(&session, RPMA_FLUSH_TYPE_VISIBILITY, NATIVE_FLUSH, 1);
    write_and_flush(&session, RPMA_FLUSH_TYPE_PERSISTENT, NATIVE_FLUSH, 2);
}

/* Many clients register memory like this without flushing to it. */
INTEGRATION_TEST(ordinary_memory_may_be_registered_as_persistent)
{
    struct region region = make_region(self, make_peer(self), MEMORY_SIZE, USAGE_PERSISTENT);
    CHECK(region.mr != NULL);
}

/* Such a flush reaches at most visibility, as the descriptor shows. */
INTEGRATION_TEST(a_flush_to_persistence_of_ordinary_memory_is_one_to_visibility)
{
    struct session session = open_between(self, NULL, NULL, "/dev/shm/rpma-native-test");
    for (unsigned seed = 1; seed < 5; ++seed)
        write_and_flush(&session, RPMA_FLUSH_TYPE_PERSISTENT, NATIVE_FLUSH, seed);
}

INTEGRATION_TEST(atomic_writes_are_emulated_if_configured)
{
    CHECK_EQ(setenv("RPMA_ATOMIC_WRITE_METHOD", "emulated", 1), 0);
    struct session session = open_between(self, NULL, NULL, NULL);
    CHECK_EQ(unsetenv("RPMA_ATOMIC_WRITE_METHOD"), 0);
    write_atomically(&session, IBV_WC_RDMA_WRITE);
}

INTEGRATION_MAIN(NULL)
