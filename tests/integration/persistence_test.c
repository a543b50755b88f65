// SPDX-License-Identifier: BSD-3-Clause
/* Flush to persistence of memory that is a mapped file, and the rights that it needs. */
#include "support/memory_server.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FILE_SIZE 65536
#define ALWAYS RPMA_F_COMPLETION_ALWAYS
#define ON_ERROR RPMA_F_COMPLETION_ON_ERROR
#define USAGE_PERSISTENT (USAGE_MEMORY | RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT)
#define DEVICE_FLUSH_GLOBAL (1ULL << 38)
#define DEVICE_FLUSH_PERSISTENT (1ULL << 39)

/* cachestat(2), Linux 6.5; the number is the same on every architecture. */
#define CACHESTAT_NUMBER 451
struct cache_range {
    uint64_t offset;
    uint64_t length;
};
struct cache_state {
    uint64_t cached;
    uint64_t dirty;
    uint64_t under_writeback;
    uint64_t evicted;
    uint64_t recently_evicted;
};

static int release_file(void *object)
{
    int result = unlink(object);
    free(object);
    return result;
}

/* Name of a file that is deleted at the end of the test. */
static const char *make_file_in(struct side *self, const char *directory)
{
    char *path = NULL;
    CHECK(asprintf(&path, "%s/rpma-test-XXXXXX", directory) > 0);
    int fd = mkstemp(path);
    if (fd < 0) {
        free(path);
        check_failed(__FILE__, __LINE__, "cannot create a file in %s", directory);
    }
    close(fd);
    scope_add(&self->scope, release_file, path);
    return path;
}

static const char *clear_device(const char *path)
{
    int fd = open(path, O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0);
    void *content = mmap(NULL, FILE_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    CHECK(content != MAP_FAILED);
    memset(content, 0, FILE_SIZE);
    CHECK_EQ(munmap(content, FILE_SIZE), 0);
    return path;
}

/*
 * Zeroed storage for persistent RDMA writes. RPMA_TEST_PMEM is a PMem device, or a directory on PMem. Without it, the
 * device must make ordinary files durable, as softrdma does. It is not under /tmp, which some systems keep in memory.
 */
static const char *make_file(struct side *self)
{
    const char *pmem = getenv("RPMA_TEST_PMEM");
    const char *directory = getenv("TMPDIR");
    struct stat info;
    if (pmem) {
        CHECK_EQ(stat(pmem, &info), 0);
        return S_ISDIR(info.st_mode) ? make_file_in(self, pmem) : clear_device(pmem);
    }
    return make_file_in(self, directory ? directory : "/var/tmp");
}

static struct server *start_file_server(struct side *self, const char *path)
{
    return start_server(self, "memory", "%d %d %s 4096", FILE_SIZE, USAGE_PERSISTENT, path);
}

static void check_file(const char *path, size_t offset, size_t length, unsigned seed)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    char *content = mmap(NULL, FILE_SIZE, PROT_READ, MAP_SHARED, fd, 0);
    close(fd);
    CHECK(content != MAP_FAILED);
    check_pattern(content + offset, length, seed);
    CHECK_EQ(munmap(content, FILE_SIZE), 0);
}

/* Returns the number of pages of the file that are not in storage yet, or -1 where the kernel cannot report it. */
static long long unstored_pages(const char *path)
{
    /* Persistent memory has no page cache, and Linux 7.3 crashes on this request for a DAX file. */
    if (getenv("RPMA_TEST_PMEM"))
        return -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    CHECK(fd >= 0);
    struct cache_range range = {.offset = 0, .length = FILE_SIZE};
    struct cache_state state = {0};
    long result = syscall(CACHESTAT_NUMBER, fd, &range, &state, 0);
    int error = errno;
    close(fd);
    CHECK(result == 0 || error == ENOSYS || error == EOPNOTSUPP);
    return result ? -1 : (long long)(state.dirty + state.under_writeback);
}

static void write_unsignalled(struct session *session, size_t offset, size_t length, unsigned seed)
{
    fill_pattern(session->local.ptr, length, seed);
    CHECK_OK(rpma_write(session->conn, session->remote, offset, session->local.mr, 0, length, ON_ERROR, NULL));
}

static void flush_persistent(struct session *session, size_t offset, size_t length)
{
    CHECK_OK(rpma_flush(session->conn, session->remote, offset, length, RPMA_FLUSH_TYPE_PERSISTENT, ALWAYS, session));
    expect_flush(session->cq, session);
}

INTEGRATION_TEST(the_file_holds_the_data_after_a_flush)
{
    const char *path = make_file(self);
    struct session session = open_session_with(self, start_file_server(self, path), FILE_SIZE, NULL);
    write_unsignalled(&session, 100, 10000, 1);
    flush_persistent(&session, 100, 10000);
    check_file(path, 100, 10000, 1);
    check_file(path, 0, 100, 0);
}

INTEGRATION_TEST(the_data_is_on_storage_when_the_flush_completes)
{
    const char *path = make_file(self);
    if (unstored_pages(path) < 0)
        skip_because("cachestat reports no page cache");
    struct session session = open_session_with(self, start_file_server(self, path), FILE_SIZE, NULL);
    for (unsigned i = 1; i <= 5; ++i) {
        fill_pattern(session.local.ptr, 20000, i);
        CHECK_OK(rpma_write(session.conn, session.remote, 100, session.local.mr, 0, 20000, ALWAYS, &session));
        expect_completion(session.cq, IBV_WC_RDMA_WRITE, &session);
        if (unstored_pages(path) == 0)
            skip_because("the file system of the test file keeps no unwritten data");
        flush_persistent(&session, 100, 20000);
        CHECK_EQ(unstored_pages(path), 0);
    }
}

INTEGRATION_TEST(flushed_data_survives_the_death_of_the_server)
{
    const char *path = make_file(self);
    struct server *server = start_file_server(self, path);
    struct session session = open_session_with(self, server, FILE_SIZE, NULL);
    /* The server must have processed the client's last handshake message; before that, its death would be a
     * rejection. */
    ask(server->link, "fill 0 8 0");
    write_unsignalled(&session, 0, 30000, 1);
    flush_persistent(&session, 0, 30000);
    kill_server(server);
    expect_end(session.conn);
    check_file(path, 0, 30000, 1);
    CHECK_EQ(unstored_pages(path) > 0, false);
}

INTEGRATION_TEST(a_pointer_flushed_after_its_data_survives_with_it)
{
    const char *path = make_file(self);
    struct server *server = start_file_server(self, path);
    struct session session = open_session_with(self, server, FILE_SIZE, NULL);
    char pointer[8];
    fill_pattern(pointer, sizeof(pointer), 9);
    write_unsignalled(&session, 4096, 30000, 1);
    CHECK_OK(rpma_flush(session.conn, session.remote, 4096, 30000, RPMA_FLUSH_TYPE_PERSISTENT, ON_ERROR, NULL));
    CHECK_OK(rpma_atomic_write(session.conn, session.remote, 8, pointer, ON_ERROR, NULL));
    flush_persistent(&session, 8, 8);
    kill_server(server);
    check_file(path, 8, 8, 9);
    check_file(path, 4096, 30000, 1);
}

static int forget_flush_method(void *object)
{
    return unsetenv("RPMA_FLUSH_METHOD");
}

static void choose_flush_method(struct side *self, const char *method)
{
    CHECK_EQ(setenv("RPMA_FLUSH_METHOD", method, 1), 0);
    scope_add(&self->scope, forget_flush_method, (void *)(uintptr_t)method);
}

static bool has_native_flush(struct side *self)
{
    struct ibv_context *context;
    struct ibv_device_attr_ex attributes = {0};
    CHECK_OK(rpma_utils_get_ibv_context(self->addr, RPMA_UTIL_IBV_CONTEXT_REMOTE, &context));
    CHECK_EQ(ibv_query_device_ex(context, NULL, &attributes), 0);
    uint64_t both = DEVICE_FLUSH_GLOBAL | DEVICE_FLUSH_PERSISTENT;
    return (attributes.device_cap_flags_ex & both) == both;
}

static void flush_with(struct side *self, const char *method, int opcode)
{
    const char *path = make_file(self);
    struct server *server = start_file_server(self, path);
    choose_flush_method(self, method);
    struct session session = open_session_with(self, server, FILE_SIZE, NULL);
    write_unsignalled(&session, 0, 4096, 3);
    CHECK_OK(rpma_flush(session.conn, session.remote, 0, 4096, RPMA_FLUSH_TYPE_PERSISTENT, ALWAYS, &session));
    expect_completion(session.cq, (enum ibv_wc_opcode)opcode, &session);
    CHECK_EQ(unstored_pages(path) > 0, false);
    kill_server(server);
    check_file(path, 0, 4096, 3);
}

INTEGRATION_TEST(emulated_flush_persists_whatever_the_device_can)
{
    needs_no_older_library();
    flush_with(self, "emulated", IBV_WC_RDMA_READ);
}

INTEGRATION_TEST(native_flush_persists_where_the_device_has_it)
{
    needs_no_older_library();
    if (!has_native_flush(self))
        skip_because("the device lacks native flush");
    flush_with(self, "native", 8 /* IBV_WC_FLUSH */);
}

INTEGRATION_MAIN(NULL)
