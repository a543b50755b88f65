// SPDX-License-Identifier: BSD-3-Clause
#include "support.h"

#include <stdlib.h>

// Every function that creates, connects or deletes. Its first, second, third ... call of the provider or allocation
// fails, once or permanently, until the function succeeds. For each failure: the function reports the first error with
// its errno value and in the log, outputs are unchanged, objects to delete are deleted, and no object remains.

// A function whose failures are tested, with the objects that it needs.
struct scenario {
    const char *name;
    void (*device)(void);  /* NULL for the default device */
    void (*prepare)(void); /* NULL if no preparation is needed */
    int (*run)(void);
    /* Calls whose failure alone does not make the function fail. */
    const char *tolerated[3];
    bool creates; /* the output is unchanged when the call fails */
    bool deletes; /* the object is deleted even when the call fails */
    bool uses_memory;
};

static struct ibv_context *context;
static void *output;
static void *after_deletion;

// Functions that prepare an object. The arguments after the name are steps.
#define PREPARE(name, ...)                                                                                             \
    static void name(void)                                                                                             \
    {                                                                                                                  \
        (void)(__VA_ARGS__);                                                                                           \
    }

PREPARE(native, fake_make_native())
PREPARE(limited_time, setenv("RPMA_PEER_TIMEOUT_MS", "1000", 1))
PREPARE(two_addresses, fake_device()->addresses = 2)
PREPARE(prepare_peer, peer = make_peer())
PREPARE(prepare_mr, prepare_peer(), mr = make_mr(peer))
PREPARE(prepare_srq, prepare_peer(), assert_int_equal(rpma_srq_new(peer, NULL, &srq), 0))
PREPARE(prepare_ep, prepare_peer(), ep = make_ep(peer))
PREPARE(prepare_incoming, prepare_ep(), fake_incoming("hello", 6))
PREPARE(prepare_shared_cfg, prepare_peer(), cfg = make_cfg(true, 5))
PREPARE(prepare_srq_cfg, prepare_srq(), cfg = make_cfg(false, 0), assert_int_equal(rpma_conn_cfg_set_srq(cfg, srq), 0))
PREPARE(prepare_rcq_incoming, prepare_incoming(), cfg = make_cfg(false, 5))
PREPARE(prepare_req, prepare_peer(), req = make_req(peer, NULL))
PREPARE(prepare_shared_req, prepare_shared_cfg(), req = make_req(peer, cfg))
PREPARE(prepare_incoming_req, prepare_ep(), req = make_incoming_req(ep, NULL))
PREPARE(prepare_conn, prepare_peer(), conn = make_conn(peer, NULL))
PREPARE(prepare_shared_conn, prepare_shared_cfg(), conn = make_conn(peer, cfg))
PREPARE(prepare_accepted_conn, prepare_incoming_req(), assert_int_equal(rpma_conn_req_connect(&req, NULL, &conn), 0))
PREPARE(prepare_established, prepare_conn(), fake_event(newest_id(), RDMA_CM_EVENT_ESTABLISHED, "answer", 7))

// Defines a function that runs a constructor and stores its result in *to. If the constructor fails, *to must be
// unchanged.
#define CREATE(name, to, type, ...)                                                                                    \
    static int run_##name(void)                                                                                        \
    {                                                                                                                  \
        type created = BOGUS;                                                                                          \
        const int code = __VA_ARGS__;                                                                                  \
        output = created;                                                                                              \
        if (code == 0)                                                                                                 \
            to = created;                                                                                              \
        return code;                                                                                                   \
    }

#define DELETE(name, object, function)                                                                                 \
    static int run_##name(void)                                                                                        \
    {                                                                                                                  \
        const int code = function(&(object));                                                                          \
        after_deletion = object;                                                                                       \
        return code;                                                                                                   \
    }

CREATE(peer_new, peer, struct rpma_peer *, rpma_peer_new(fake_context(), &created))
DELETE(peer_delete, peer, rpma_peer_delete)
CREATE(mr_reg, mr, struct rpma_mr_local *, rpma_mr_reg(peer, test_memory, 64, 0xff, &created))
DELETE(mr_dereg, mr, rpma_mr_dereg)
CREATE(srq_new, srq, struct rpma_srq *, rpma_srq_new(peer, NULL, &created))
DELETE(srq_delete, srq, rpma_srq_delete)
CREATE(ep_listen, ep, struct rpma_ep *, rpma_ep_listen(peer, "here", "7204", &created))
DELETE(ep_shutdown, ep, rpma_ep_shutdown)
CREATE(next_conn_req, req, struct rpma_conn_req *, rpma_ep_next_conn_req(ep, cfg, &created))
CREATE(conn_req_new, req, struct rpma_conn_req *, rpma_conn_req_new(peer, "server", "7204", cfg, &created))
DELETE(conn_req_delete, req, rpma_conn_req_delete)
CREATE(connect, conn, struct rpma_conn *, rpma_conn_req_connect(&req, NULL, &created))
DELETE(conn_delete, conn, rpma_conn_delete)
CREATE(get_local_context, context, struct ibv_context *,
        rpma_utils_get_ibv_context("here", RPMA_UTIL_IBV_CONTEXT_LOCAL, &created))
CREATE(get_remote_context, context, struct ibv_context *,
        rpma_utils_get_ibv_context("there", RPMA_UTIL_IBV_CONTEXT_REMOTE, &created))

static int run_next_event(void)
{
    enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
    const int code = rpma_conn_next_event(conn, &event);
    assert_int_equal(event, code == 0 ? RPMA_CONN_ESTABLISHED : RPMA_CONN_UNDEFINED);
    return code;
}

// The remaining arguments of a row are fields that differ from the defaults.
#define CREATES(call, ...)                                                                                             \
    {                                                                                                                  \
        .name = #call ": " #__VA_ARGS__, .run = run_##call, .creates = true, .uses_memory = true, __VA_ARGS__          \
    }
#define DELETES(call, ...)                                                                                             \
    {                                                                                                                  \
        .name = #call ": " #__VA_ARGS__, .run = run_##call, .deletes = true, __VA_ARGS__                               \
    }
#define FINDS(call, ...)                                                                                               \
    {                                                                                                                  \
        .name = #call ": " #__VA_ARGS__, .run = run_##call, .creates = true, __VA_ARGS__                               \
    }

static const struct scenario scenarios[] = {
        CREATES(peer_new, .tolerated = {"ibv_query_port"}),
        CREATES(peer_new, .device = native, .tolerated = {"ibv_query_port"}),
        CREATES(mr_reg, .prepare = prepare_peer),
        CREATES(mr_reg, .device = native, .prepare = prepare_peer),
        CREATES(srq_new, .prepare = prepare_peer),
        CREATES(ep_listen, .prepare = prepare_peer),
        CREATES(ep_listen, .device = two_addresses, .prepare = prepare_peer, .tolerated = {"rdma_bind_addr"}),
        CREATES(next_conn_req, .prepare = prepare_incoming),
        CREATES(next_conn_req, .device = native, .prepare = prepare_rcq_incoming),
        CREATES(conn_req_new, .prepare = prepare_peer),
        CREATES(conn_req_new, .device = native, .prepare = prepare_peer),
        CREATES(conn_req_new, .device = limited_time, .prepare = prepare_peer),
        CREATES(conn_req_new, .prepare = prepare_shared_cfg),
        CREATES(conn_req_new, .prepare = prepare_srq_cfg),
        CREATES(conn_req_new, .device = two_addresses, .prepare = prepare_peer,
                .tolerated = {"rdma_resolve_addr", "rdma_resolve_route"}),
        CREATES(connect, .prepare = prepare_req),
        CREATES(connect, .device = native, .prepare = prepare_req),
        CREATES(connect, .prepare = prepare_shared_req),
        CREATES(connect, .prepare = prepare_incoming_req),
        CREATES(connect, .device = native, .prepare = prepare_incoming_req),
        {.name = "next_event", .run = run_next_event, .prepare = prepare_established, .uses_memory = true},
        FINDS(get_local_context, .tolerated = {"rdma_destroy_id"}),
        FINDS(get_local_context, .device = two_addresses, .tolerated = {"rdma_bind_addr", "rdma_destroy_id"}),
        FINDS(get_remote_context, .device = two_addresses, .tolerated = {"rdma_resolve_addr", "rdma_destroy_id"}),
        DELETES(peer_delete, .prepare = prepare_peer),
        DELETES(mr_dereg, .prepare = prepare_mr),
        DELETES(srq_delete, .prepare = prepare_srq),
        DELETES(ep_shutdown, .prepare = prepare_ep),
        DELETES(ep_shutdown, .prepare = prepare_incoming),
        DELETES(conn_req_delete, .prepare = prepare_req),
        DELETES(conn_req_delete, .prepare = prepare_shared_req),
        DELETES(conn_req_delete, .prepare = prepare_incoming_req),
        DELETES(conn_delete, .prepare = prepare_conn),
        DELETES(conn_delete, .device = native, .prepare = prepare_conn),
        DELETES(conn_delete, .prepare = prepare_shared_conn),
        DELETES(conn_delete, .prepare = prepare_accepted_conn),
};

// Creates a fresh fake stack on which scenario->run can be called.
static void set_up(const struct scenario *scenario)
{
    begin_test(NULL);
    output = NULL;
    after_deletion = BOGUS;
    if (scenario->device != NULL)
        scenario->device();
    if (scenario->prepare != NULL)
        scenario->prepare();
}

// Deletes the remaining objects with working calls. Fails if an object remains.
static void clean_up(const struct scenario *scenario)
{
    fake_fail_call(0, 0, false);
    fake_libc_fail_none();
    // Objects that remain after a failed deletion prevent the deallocation of the protection domain.
    rpma_conn_delete(&conn);
    rpma_conn_req_delete(&req);
    rpma_ep_shutdown(&ep);
    rpma_srq_delete(&srq);
    rpma_mr_dereg(&mr);
    rpma_conn_cfg_delete(&cfg);
    rpma_peer_delete(&peer);
    if (end_test(NULL) != 0)
        fail_msg("%s left something over", scenario->name);
}

// Checks after a failed call that the output is unchanged, or that the object was deleted.
static void assert_failed_cleanly(const struct scenario *scenario)
{
    if (scenario->creates)
        assert_ptr_equal(output, BOGUS);
    // The request is consumed even on error.
    if (scenario->run == run_connect)
        assert_null(req);
    if (scenario->deletes)
        assert_null(after_deletion);
}

enum {
    FIRST_ERRNO = 1000,
    MANY = 100
};

static bool is_tolerated(const struct scenario *scenario, const char *call)
{
    for (size_t i = 0; i < sizeof(scenario->tolerated) / sizeof(scenario->tolerated[0]); ++i)
        if (scenario->tolerated[i] != NULL && strcmp(scenario->tolerated[i], call) == 0)
            return true;
    return false;
}

static void assert_code(const struct scenario *scenario, const char *what, int code, int expected)
{
    if (code != expected)
        fail_msg("%s with a failing %s: %s instead of %s", scenario->name, what, rpma_err_2str(code),
                rpma_err_2str(expected));
}

// Fails the n-th provider call; false if there is none.
static bool fail_provider_call(const struct scenario *scenario, unsigned n, bool persistent)
{
    set_up(scenario);
    fake_fail_call(n, FIRST_ERRNO, persistent);
    errno = 0;
    const int code = scenario->run();
    const int error = errno;
    const char *const failed = fake_failed_call();
    if (failed == NULL) {
        assert_code(scenario, "nothing", code, 0);
        assert_int_equal(error, 0);
    } else if (is_tolerated(scenario, failed) && code == 0) {
        assert_int_equal(error, 0);
    } else if (is_tolerated(scenario, failed) && !persistent) {
        assert_code(scenario, failed, code, 0);
    } else {
        assert_code(scenario, failed, code, RPMA_E_PROVIDER);
        // A failing port query is tolerated.
        if (strcmp(failed, "ibv_query_port") == 0)
            assert_true(error > FIRST_ERRNO);
        else
            assert_int_equal(error, FIRST_ERRNO);
        if (!persistent) {
            // A CQ that is not destroyed prevents the destruction of its channel.
            assert_int_equal(log_count(RPMA_LOG_LEVEL_ERROR), strcmp(failed, "ibv_destroy_cq") == 0 ? 2 : 1);
            assert_non_null(strstr(log_texts(), failed));
            assert_non_null(strstr(log_texts(), strerror(FIRST_ERRNO)));
        }
        assert_failed_cleanly(scenario);
    }
    clean_up(scenario);
    return failed != NULL;
}

static void fail_all_calls(void)
{
    fake_fail_call(1, FIRST_ERRNO, true);
}

// Fails the n-th request for memory, and on request the provider calls of the cleanup. Returns false if there is no
// n-th request.
static bool fail_memory(
        const struct scenario *scenario, enum fake_libc_call which, unsigned n, bool persistent, bool calls_too)
{
    set_up(scenario);
    fake_libc_on_failure(calls_too ? fail_all_calls : NULL);
    fake_libc_fail(which, n, persistent);
    const int code = scenario->run();
    const bool failed = fake_libc_failed(which);
    assert_code(scenario, "request for memory", code, failed ? RPMA_E_NOMEM : 0);
    if (failed)
        assert_failed_cleanly(scenario);
    clean_up(scenario);
    return failed;
}

static void sweep_provider_calls(bool persistent)
{
    for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); ++i) {
        unsigned n = 1;
        while (n < MANY && fail_provider_call(&scenarios[i], n, persistent))
            ++n;
        assert_true(n < MANY);
        // The sweep must have made at least one call fail.
        if (n == 1)
            fail_msg("%s makes no provider call", scenarios[i].name);
    }
}

DEFINE_TEST(a_provider_call_that_fails_once_is_reported_and_leaks_nothing, NULL, NULL)
{
    sweep_provider_calls(false);
}

DEFINE_TEST(later_failures_of_provider_calls_report_the_first_error, NULL, NULL)
{
    sweep_provider_calls(true);
}

static void sweep_memory(bool persistent, bool calls_too)
{
    for (size_t i = 0; i < sizeof(scenarios) / sizeof(scenarios[0]); ++i) {
        unsigned n = 1;
        while (n < MANY && fail_memory(&scenarios[i], FAKE_MALLOC, n, persistent, calls_too))
            ++n;
        assert_true(n < MANY);
        if (scenarios[i].uses_memory && n == 1)
            fail_msg("%s allocates nothing", scenarios[i].name);
        for (n = 1; fail_memory(&scenarios[i], FAKE_MMAP, n, persistent, calls_too); ++n)
            assert_true(n < MANY);
    }
}

DEFINE_TEST(missing_memory_is_reported_and_leaks_nothing, NULL, NULL)
{
    sweep_memory(false, false);
    sweep_memory(true, false);
}

DEFINE_TEST(missing_memory_is_reported_even_if_cleaning_up_fails, NULL, NULL)
{
    sweep_memory(false, true);
    sweep_memory(true, true);
}
