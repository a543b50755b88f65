/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Failures of the calls that librpmem makes: calls of librpma, allocations, and creations of descriptors and threads.
 * Each function fails at its first, second, third ... call, while pools are created, written, read and closed. Each
 * call of librpmem must succeed, or fail with an errno value. No call may hang. Acknowledged data must be in the part,
 * no resource may leak, and the next session must work. The library is linked into this program, so that only its own
 * calls fail. RPMEM_FAILURES is the number of calls of each function that fail, one per run (default 2).
 */
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>

#include <librpma.h>

#include "support.h"

enum {
    HANG_LIMIT_S = 120,
    MANY = 70
};

static const char *failing = "";
static atomic_int until_failure;
static atomic_bool has_failed;

static bool fails(const char *function)
{
    if (strcmp(function, failing) != 0 || atomic_fetch_sub(&until_failure, 1) != 1)
        return false;
    has_failed = true;
    return true;
}

/* The linker redirects the calls of librpmem to these wrappers, which call the function. */
#define STAND_IN(type, function, parameters, arguments, failed)                                                        \
    type __real_##function parameters;                                                                                 \
    type __wrap_##function parameters;                                                                                 \
    type __wrap_##function parameters                                                                                  \
    {                                                                                                                  \
        if (fails(#function))                                                                                          \
            return failed;                                                                                             \
        return __real_##function arguments;                                                                            \
    }

static int fail_with(int error, int result)
{
    errno = error;
    return result;
}

static void *no_memory(void)
{
    errno = ENOMEM;
    return NULL;
}

static void *no_mapping(void)
{
    errno = ENOMEM;
    return MAP_FAILED;
}

#define PROVIDER fail_with(EIO, RPMA_E_PROVIDER)

STAND_IN(int, rpma_utils_get_ibv_context_by_kind,
        (const char *address, enum rpma_util_ibv_context_type type, enum rpma_device_kind kind,
                struct ibv_context **device),
        (address, type, kind, device), PROVIDER)
STAND_IN(int, rpma_peer_new, (struct ibv_context * device, struct rpma_peer **peer), (device, peer), PROVIDER)
STAND_IN(int, rpma_mr_reg, (struct rpma_peer * peer, void *memory, size_t size, int usage, struct rpma_mr_local **mr),
        (peer, memory, size, usage, mr), PROVIDER)
STAND_IN(int, rpma_mr_remote_from_descriptor, (const void *descriptor, size_t size, struct rpma_mr_remote **mr),
        (descriptor, size, mr), RPMA_E_NOMEM)
STAND_IN(int, rpma_mr_remote_get_size, (const struct rpma_mr_remote *mr, size_t *size), (mr, size), RPMA_E_INVAL)
STAND_IN(int, rpma_peer_cfg_from_descriptor,
        (const void *descriptor, size_t size, struct rpma_peer_cfg **configuration), (descriptor, size, configuration),
        RPMA_E_NOMEM)
STAND_IN(int, rpma_conn_apply_remote_peer_cfg, (struct rpma_conn * conn, const struct rpma_peer_cfg *configuration),
        (conn, configuration), RPMA_E_INVAL)
STAND_IN(int, rpma_conn_cfg_new, (struct rpma_conn_cfg * *configuration), (configuration), RPMA_E_NOMEM)
STAND_IN(int, rpma_conn_req_new,
        (struct rpma_peer * peer, const char *address, const char *port, const struct rpma_conn_cfg *configuration,
                struct rpma_conn_req **request),
        (peer, address, port, configuration, request), PROVIDER)
STAND_IN(int, rpma_conn_req_recv,
        (struct rpma_conn_req * request, struct rpma_mr_local *mr, size_t offset, size_t size, const void *context),
        (request, mr, offset, size, context), PROVIDER)
STAND_IN(int, rpma_conn_get_native_flush, (const struct rpma_conn *conn, bool *native), (conn, native), RPMA_E_INVAL)
STAND_IN(int, rpma_conn_next_event, (struct rpma_conn * conn, enum rpma_conn_event *event), (conn, event), PROVIDER)
STAND_IN(int, rpma_conn_get_cq, (const struct rpma_conn *conn, struct rpma_cq **cq), (conn, cq), RPMA_E_INVAL)
STAND_IN(int, rpma_cq_get_fd, (const struct rpma_cq *cq, int *fd), (cq, fd), RPMA_E_INVAL)
STAND_IN(int, rpma_cq_wait, (struct rpma_cq * cq), (cq), PROVIDER)
STAND_IN(int, rpma_cq_get_wc, (struct rpma_cq * cq, int num_entries, struct ibv_wc *wc, int *got),
        (cq, num_entries, wc, got), PROVIDER)
STAND_IN(int, rpma_write,
        (struct rpma_conn * conn, struct rpma_mr_remote *to, size_t to_offset, const struct rpma_mr_local *from,
                size_t from_offset, size_t size, int flags, const void *context),
        (conn, to, to_offset, from, from_offset, size, flags, context), PROVIDER)
STAND_IN(int, rpma_read,
        (struct rpma_conn * conn, struct rpma_mr_local *to, size_t to_offset, const struct rpma_mr_remote *from,
                size_t from_offset, size_t size, int flags, const void *context),
        (conn, to, to_offset, from, from_offset, size, flags, context), PROVIDER)
STAND_IN(int, rpma_send,
        (struct rpma_conn * conn, const struct rpma_mr_local *from, size_t offset, size_t size, int flags,
                const void *context),
        (conn, from, offset, size, flags, context), PROVIDER)
STAND_IN(int, rpma_recv,
        (struct rpma_conn * conn, struct rpma_mr_local *to, size_t offset, size_t size, const void *context),
        (conn, to, offset, size, context), PROVIDER)
STAND_IN(int, rpma_flush,
        (struct rpma_conn * conn, struct rpma_mr_remote *of, size_t offset, size_t size, enum rpma_flush_type type,
                int flags, const void *context),
        (conn, of, offset, size, type, flags, context), PROVIDER)
STAND_IN(void *, calloc, (size_t count, size_t size), (count, size), no_memory())
STAND_IN(int, posix_memalign, (void **memory, size_t alignment, size_t size), (memory, alignment, size), ENOMEM)
STAND_IN(int, eventfd, (unsigned initial, int flags), (initial, flags), fail_with(EMFILE, -1))
STAND_IN(int, socketpair, (int domain, int type, int protocol, int pair[2]), (domain, type, protocol, pair),
        fail_with(EMFILE, -1))
STAND_IN(int, pipe2, (int pair[2], int flags), (pair, flags), fail_with(EMFILE, -1))
STAND_IN(void *, mmap, (void *address, size_t size, int protection, int flags, int fd, off_t offset),
        (address, size, protection, flags, fd, offset), no_mapping())
STAND_IN(int, posix_spawnp,
        (pid_t * pid, const char *file, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attributes,
                char *const arguments[], char *const environment[]),
        (pid, file, actions, attributes, arguments, environment), EAGAIN)

/* operator new, of the messages. Its failure is an exception. */
void *no_object(void);
STAND_IN(void *, _Znwm, (size_t size), (size), no_object())

/* The constructor of std::thread. Its failure is an exception. */
#define START_THREAD _ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE
#define IN_THREAD(prefix, function) IN_THREAD_(prefix, function)
#define IN_THREAD_(prefix, function) prefix##function
void no_thread(void);
void IN_THREAD(__real_, START_THREAD)(void *thread, void *state, void (*depends)(void));
void IN_THREAD(__wrap_, START_THREAD)(void *thread, void *state, void (*depends)(void));
void IN_THREAD(__wrap_, START_THREAD)(void *thread, void *state, void (*depends)(void))
{
    if (fails("_ZNSt6thread15_M_start_threadESt10unique_ptrINS_6_StateESt14default_deleteIS1_EEPFvvE"))
        no_thread();
    IN_THREAD(__real_, START_THREAD)(thread, state, depends);
}
STAND_IN(
        int, poll, (struct pollfd * fds, nfds_t count, int timeout_ms), (fds, count, timeout_ms), fail_with(ENOMEM, -1))
STAND_IN(ssize_t, send, (int fd, const void *bytes, size_t size, int flags), (fd, bytes, size, flags),
        fail_with(ENOBUFS, -1))
STAND_IN(ssize_t, read, (int fd, void *bytes, size_t size), (fd, bytes, size), fail_with(EIO, -1))

/* Variadic functions. The wrappers pass on the mode of a file, and two arguments of the system call. */
STAND_IN(int, open, (const char *path, int flags, mode_t mode), (path, flags, mode), fail_with(EMFILE, -1))
STAND_IN(long, syscall, (long number, long first, long second), (number, first, second), fail_with(EMFILE, -1))
STAND_IN(int, clone, (int (*function)(void *), void *stack, int flags, void *argument),
        (function, stack, flags, argument), fail_with(EAGAIN, -1))

/* Calls that have an effect even if they fail. */
static int fail_to_connect(struct rpma_conn_req **request)
{
    rpma_conn_req_delete(request);
    return PROVIDER;
}
STAND_IN(int, rpma_conn_req_connect,
        (struct rpma_conn_req * *request, const struct rpma_conn_private_data *data, struct rpma_conn **conn),
        (request, data, conn), fail_to_connect(request))

#define STAND_IN_AT_THE_END(function, of)                                                                              \
    int __real_##function(of what);                                                                                    \
    int __wrap_##function(of what);                                                                                    \
    int __wrap_##function(of what)                                                                                     \
    {                                                                                                                  \
        const int result = __real_##function(what);                                                                    \
        return fails(#function) ? PROVIDER : result;                                                                   \
    }

STAND_IN_AT_THE_END(rpma_conn_disconnect, struct rpma_conn *)
STAND_IN_AT_THE_END(rpma_conn_delete, struct rpma_conn **)
STAND_IN_AT_THE_END(rpma_mr_dereg, struct rpma_mr_local **)
STAND_IN_AT_THE_END(rpma_peer_delete, struct rpma_peer **)

/* Functions that the linker redirects to these wrappers. */
static const char *const functions[] = {FAILING_FUNCTIONS};

#ifdef __SANITIZE_THREAD__
/* Under ThreadSanitizer the library calls __clone() instead, which has no wrapper. */
static const char *const not_called = "clone";
#else
static const char *const not_called = "";
#endif

static unsigned succeeded, refused;

/* Returns true if a call of librpmem succeeded, and checks the errno of one that failed. */
static bool good(int result)
{
    if (result == 0) {
        ++succeeded;
        return true;
    }
    assert_int_equal(result, -1);
    assert_int_not_equal(errno, 0);
    assert_true(rpmem_errormsg()[0] != '\0');
    ++refused;
    return false;
}

static void write_and_read(RPMEMpool *pool, int mark)
{
    memset(pool_memory + HEADER_SIZE, mark, POOL_SIZE - HEADER_SIZE);
    if (good(rpmem_persist(pool, HEADER_SIZE, 64, 0, 0)))
        expect_in_part(HEADER_SIZE, 64);
    bool all = true;
    for (size_t i = 0; i < MANY; ++i)
        all = good(rpmem_flush(pool, 8192 + i * 128, 64, 1, 0)) && all;
    if (good(rpmem_drain(pool, 1, 0)) && all)
        for (size_t i = 0; i < MANY; ++i)
            expect_in_part(8192 + i * 128, 64);
    if (good(rpmem_deep_persist(pool, 65536, 2 << 20, 0)))
        expect_in_part(65536, 2 << 20);
    static char copy[1 << 20];
    memset(copy, 0, sizeof(copy));
    if (good(rpmem_read(pool, copy, 65536, 100, 0)))
        assert_memory_equal(copy, pool_memory + 65536, 100);
    if (good(rpmem_read(pool, copy, 65536, sizeof(copy), 1)))
        assert_memory_equal(copy, pool_memory + 65536, sizeof(copy));
    good(rpmem_set_attr(pool, &some_attributes));
}

static void session(bool create, int mark)
{
    unsigned lanes = 2;
    errno = 0;
    RPMEMpool *const pool = create ? rpmem_create("host", "pool.set", pool_memory, POOL_SIZE, &lanes, &some_attributes)
                                   : rpmem_open("host", "pool.set", pool_memory, POOL_SIZE, &lanes, NULL);
    if (!good(pool == NULL ? -1 : 0))
        return;
    assert_int_equal(lanes, 2);
    write_and_read(pool, mark);
    good(rpmem_close(pool));
}

static void fail_at(const char *function, int call, const struct resources *before)
{
    static int mark = 1;
    alarm(HANG_LIMIT_S);
    has_failed = false;
    until_failure = call;
    failing = function;
    refused = 0;
    good(rpmem_remove("host", "pool.set", RPMEM_REMOVE_FORCE));
    session(true, ++mark);
    session(false, ++mark);
    failing = "";
    if (!has_failed)
        assert_int_equal(refused, 0);
    expect_no_leak(before);
    alarm(0);
}

TEST(each_call_fails_once)
{
    const int max_calls = (int)number_from("RPMEM_FAILURES", 2);
    fail_at("", 0, &(struct resources){UINT_MAX, UINT_MAX, UINT_MAX});
    const struct resources before = resources_of(getpid());
    unsigned failures = 0, harmless = 0;
    for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); ++i) {
        int call = 1;
        for (; call <= max_calls; ++call) {
            fail_at(functions[i], call, &before);
            if (!has_failed)
                break;
            ++failures;
            harmless += refused == 0;
        }
        /* Each function must have failed, except rpma_cq_wait, which might not be called, and the function not called
         * at all. */
        if (call == 1 && strcmp(functions[i], "rpma_cq_wait") != 0 && strcmp(functions[i], not_called) != 0)
            fail_msg("%s was not called", functions[i]);
    }
    /* Ends the injection of failures. */
    fail_at("", 0, &before);
    print_message("%u failures of %zu functions, %u of which no caller saw\n", failures,
            sizeof(functions) / sizeof(functions[0]), harmless);
}

GROUP_FIXTURE(make_memory, NULL)

int main(void)
{
    setenv("RPMEM_OP_TIMEOUT_MS", "5000", 1);
    return run_registered_tests();
}
