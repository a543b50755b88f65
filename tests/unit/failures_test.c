// SPDX-License-Identifier: BSD-3-Clause
#include "support.h"

#include <stdio.h>

// Every function that creates, connects or deletes, with its first, second, third ... call to the provider or for
// memory failing, once and from then on, until it succeeds. Whatever fails: the first error is reported with its errno,
// outputs are left alone, what is to be deleted is deleted, and nothing is left over.

enum {
    FIRST_ERRNO = 1000,
    MANY = 100
};

struct scenario {
    const char *name;
    void (*device)(void); /* NULL: the plain one */
    void (*prepare)(void);
    int (*run)(void);
    // Calls whose failure alone is no failure of the function.
    const char *tolerated[3];
    // Whether a failed call leaves its output as it was.
    bool creates;
    bool uses_memory;
};

static struct rpma_peer *peer;
static struct rpma_mr_local *mr;
static struct rpma_srq *srq;
static struct rpma_ep *ep;
static struct rpma_conn_cfg *cfg;
static struct rpma_conn_req *req;
static struct rpma_conn *conn;
static struct ibv_context *context;
static void *output;

static void native(void)
{
    fake_make_native();
}

static void two_addresses(void)
{
    fake_device()->addresses = 2;
}

static void nothing(void) {}

static void prepare_peer(void)
{
    peer = make_peer();
}

static void prepare_mr(void)
{
    prepare_peer();
    mr = make_mr(peer);
}

static void prepare_srq(void)
{
    prepare_peer();
    assert_int_equal(rpma_srq_new(peer, NULL, &srq), 0);
}

static void prepare_ep(void)
{
    prepare_peer();
    ep = make_ep(peer);
}

static void prepare_incoming(void)
{
    prepare_ep();
    fake_incoming("hello", 6);
}

static void prepare_shared_cfg(void)
{
    prepare_peer();
    cfg = make_cfg(true, 5);
}

static void prepare_srq_cfg(void)
{
    prepare_srq();
    cfg = make_cfg(false, 0);
    assert_int_equal(rpma_conn_cfg_set_srq(cfg, srq), 0);
}

static void prepare_rcq_incoming(void)
{
    prepare_incoming();
    cfg = make_cfg(false, 5);
}

static void prepare_req(void)
{
    prepare_peer();
    req = make_req(peer, NULL);
}

static void prepare_shared_req(void)
{
    prepare_shared_cfg();
    req = make_req(peer, cfg);
}

static void prepare_incoming_req(void)
{
    prepare_ep();
    req = make_incoming_req(ep, NULL);
}

static void prepare_conn(void)
{
    prepare_peer();
    conn = make_conn(peer, NULL);
}

static void prepare_shared_conn(void)
{
    prepare_shared_cfg();
    conn = make_conn(peer, cfg);
}

static void prepare_accepted_conn(void)
{
    prepare_incoming_req();
    assert_int_equal(rpma_conn_req_connect(&req, NULL, &conn), 0);
}

static void prepare_established(void)
{
    prepare_conn();
    fake_event(newest_id(), RDMA_CM_EVENT_ESTABLISHED, "answer", 7);
}

// Runs a constructor whose output goes to *to, which keeps what it holds when the constructor fails.
#define CREATE(to, type, ...)                                                                                          \
    do {                                                                                                               \
        type made = BOGUS;                                                                                             \
        const int code = __VA_ARGS__;                                                                                  \
        output = made;                                                                                                 \
        if (code == 0)                                                                                                 \
            to = made;                                                                                                 \
        return code;                                                                                                   \
    } while (0)

static int run_peer_new(void)
{
    CREATE(peer, struct rpma_peer *, rpma_peer_new(fake_context(), &made));
}

static int run_peer_delete(void)
{
    return rpma_peer_delete(&peer);
}

static int run_mr_reg(void)
{
    CREATE(mr, struct rpma_mr_local *, rpma_mr_reg(peer, test_memory, 64, 0xff, &made));
}

static int run_mr_dereg(void)
{
    return rpma_mr_dereg(&mr);
}

static int run_srq_new(void)
{
    CREATE(srq, struct rpma_srq *, rpma_srq_new(peer, NULL, &made));
}

static int run_srq_delete(void)
{
    return rpma_srq_delete(&srq);
}

static int run_ep_listen(void)
{
    CREATE(ep, struct rpma_ep *, rpma_ep_listen(peer, "here", "7204", &made));
}

static int run_ep_shutdown(void)
{
    return rpma_ep_shutdown(&ep);
}

static int run_next_conn_req(void)
{
    CREATE(req, struct rpma_conn_req *, rpma_ep_next_conn_req(ep, cfg, &made));
}

static int run_conn_req_new(void)
{
    CREATE(req, struct rpma_conn_req *, rpma_conn_req_new(peer, "server", "7204", cfg, &made));
}

static int run_conn_req_delete(void)
{
    return rpma_conn_req_delete(&req);
}

static int run_connect(void)
{
    CREATE(conn, struct rpma_conn *, rpma_conn_req_connect(&req, NULL, &made));
}

static int run_next_event(void)
{
    enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
    const int code = rpma_conn_next_event(conn, &event);
    assert_int_equal(event, code == 0 ? RPMA_CONN_ESTABLISHED : RPMA_CONN_UNDEFINED);
    return code;
}

static int run_conn_delete(void)
{
    return rpma_conn_delete(&conn);
}

static int run_get_local_context(void)
{
    CREATE(context, struct ibv_context *, rpma_utils_get_ibv_context("here", RPMA_UTIL_IBV_CONTEXT_LOCAL, &made));
}

static int run_get_remote_context(void)
{
    CREATE(context, struct ibv_context *, rpma_utils_get_ibv_context("there", RPMA_UTIL_IBV_CONTEXT_REMOTE, &made));
}

#define DELETES(name, device, prepare)                                                                                 \
    {                                                                                                                  \
#name " (" #prepare ")", device, prepare, run_##name, {NULL }, false, false                                    \
    }
#define CREATES(name, device, prepare, ...)                                                                            \
    {                                                                                                                  \
#name " (" #prepare ", " #device ")", device, prepare, run_##name, {__VA_ARGS__ }, true, true                  \
    }

static const struct scenario scenarios[] = {
        CREATES(peer_new, NULL, nothing, "ibv_query_port"),
        CREATES(peer_new, native, nothing, "ibv_query_port"),
        CREATES(mr_reg, NULL, prepare_peer, NULL),
        CREATES(mr_reg, native, prepare_peer, NULL),
        CREATES(srq_new, NULL, prepare_peer, NULL),
        CREATES(ep_listen, NULL, prepare_peer, NULL),
        CREATES(ep_listen, two_addresses, prepare_peer, "rdma_bind_addr"),
        CREATES(next_conn_req, NULL, prepare_incoming, NULL),
        CREATES(next_conn_req, native, prepare_rcq_incoming, NULL),
        CREATES(conn_req_new, NULL, prepare_peer, NULL),
        CREATES(conn_req_new, native, prepare_peer, NULL),
        CREATES(conn_req_new, NULL, prepare_shared_cfg, NULL),
        CREATES(conn_req_new, NULL, prepare_srq_cfg, NULL),
        CREATES(conn_req_new, two_addresses, prepare_peer, "rdma_resolve_addr", "rdma_resolve_route"),
        CREATES(connect, NULL, prepare_req, NULL),
        CREATES(connect, native, prepare_req, NULL),
        CREATES(connect, NULL, prepare_shared_req, NULL),
        CREATES(connect, NULL, prepare_incoming_req, NULL),
        CREATES(connect, native, prepare_incoming_req, NULL),
        {"next_event", NULL, prepare_established, run_next_event, {NULL}, false, true},
        {"get_local_context", NULL, nothing, run_get_local_context, {"rdma_destroy_id"}, true, false},
        {"get_local_context", two_addresses, nothing, run_get_local_context, {"rdma_bind_addr", "rdma_destroy_id"},
                true, false},
        {"get_remote_context", two_addresses, nothing, run_get_remote_context, {"rdma_resolve_addr", "rdma_destroy_id"},
                true, false},
        DELETES(peer_delete, NULL, prepare_peer),
        DELETES(mr_dereg, NULL, prepare_mr),
        DELETES(srq_delete, NULL, prepare_srq),
        DELETES(ep_shutdown, NULL, prepare_ep),
        DELETES(ep_shutdown, NULL, prepare_incoming),
        DELETES(conn_req_delete, NULL, prepare_req),
        DELETES(conn_req_delete, NULL, prepare_shared_req),
        DELETES(conn_req_delete, NULL, prepare_incoming_req),
        DELETES(conn_delete, NULL, prepare_conn),
        DELETES(conn_delete, native, prepare_conn),
        DELETES(conn_delete, NULL, prepare_shared_conn),
        DELETES(conn_delete, NULL, prepare_accepted_conn),
};

static void set_up(const struct scenario *scenario)
{
    begin_test(NULL);
    peer = NULL;
    mr = NULL;
    srq = NULL;
    ep = NULL;
    cfg = NULL;
    req = NULL;
    conn = NULL;
    context = NULL;
    output = NULL;
    if (scenario->device != NULL)
        scenario->device();
    scenario->prepare();
}

static void clean_up(const struct scenario *scenario)
{
    fake_fail_call(0, 0, false);
    fake_libc_fail_none();
    // What a failed deletion left behind keeps the protection domain from going.
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

// Everything but the code, which differs by what failed.
static void assert_failed_cleanly(const struct scenario *scenario)
{
    if (scenario->creates)
        assert_ptr_equal(output, BOGUS);
    if (scenario->run == run_connect)
        assert_null(req);
    if (scenario->run == run_conn_delete)
        assert_null(conn);
    if (scenario->run == run_conn_req_delete)
        assert_null(req);
    if (scenario->run == run_ep_shutdown)
        assert_null(ep);
    if (scenario->run == run_srq_delete)
        assert_null(srq);
    if (scenario->run == run_mr_dereg)
        assert_null(mr);
    if (scenario->run == run_peer_delete)
        assert_null(peer);
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
        // A port that cannot be queried does not count.
        if (strcmp(failed, "ibv_query_port") == 0)
            assert_true(error > FIRST_ERRNO);
        else
            assert_int_equal(error, FIRST_ERRNO);
        assert_failed_cleanly(scenario);
    }
    clean_up(scenario);
    return failed != NULL;
}

static void fail_all_calls(void)
{
    fake_fail_call(1, FIRST_ERRNO, true);
}

// Fails the n-th request for memory, and with it the provider calls of the clean-up if asked to; false if there is
// none.
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
        // At least one call has failed, or the sweep has missed its aim.
        if (n == 1)
            fail_msg("%s makes no provider call", scenarios[i].name);
    }
}

static void a_provider_call_that_fails_once_is_reported_and_leaks_nothing(void **state)
{
    (void)state;
    sweep_provider_calls(false);
}

static void provider_calls_that_fail_from_then_on_report_the_first_error(void **state)
{
    (void)state;
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

static void missing_memory_is_reported_and_leaks_nothing(void **state)
{
    (void)state;
    sweep_memory(false, false);
    sweep_memory(true, false);
}

static void missing_memory_is_reported_even_if_cleaning_up_fails(void **state)
{
    (void)state;
    sweep_memory(false, true);
    sweep_memory(true, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
            cmocka_unit_test(a_provider_call_that_fails_once_is_reported_and_leaks_nothing),
            cmocka_unit_test(provider_calls_that_fail_from_then_on_report_the_first_error),
            cmocka_unit_test(missing_memory_is_reported_and_leaks_nothing),
            cmocka_unit_test(missing_memory_is_reported_even_if_cleaning_up_fails),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
