// SPDX-License-Identifier: BSD-3-Clause
#include "failure_scenarios.h"

static struct rpma_mr_local *mr;
static struct rpma_srq *srq;
static struct rpma_conn_cfg *cfg;
static struct rpma_conn_req *req;
static struct ibv_context *context;
static void *output;
static void *after_deletion;

static void native(void)
{
    fake_make_native();
}

static void two_addresses(void)
{
    fake_device()->addresses = 2;
}

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

// Runs a constructor that stores its result in *to. If the constructor fails, *to must be unchanged.
#define CREATE(to, type, ...)                                                                                          \
    do {                                                                                                               \
        type created = BOGUS;                                                                                          \
        const int code = __VA_ARGS__;                                                                                  \
        output = created;                                                                                              \
        if (code == 0)                                                                                                 \
            to = created;                                                                                              \
        return code;                                                                                                   \
    } while (0)

#define DELETE(object, function)                                                                                       \
    do {                                                                                                               \
        const int code = function(&(object));                                                                          \
        after_deletion = object;                                                                                       \
        return code;                                                                                                   \
    } while (0)

static int run_peer_new(void)
{
    CREATE(peer, struct rpma_peer *, rpma_peer_new(fake_context(), &created));
}

static int run_peer_delete(void)
{
    DELETE(peer, rpma_peer_delete);
}

static int run_mr_reg(void)
{
    CREATE(mr, struct rpma_mr_local *, rpma_mr_reg(peer, test_memory, 64, 0xff, &created));
}

static int run_mr_dereg(void)
{
    DELETE(mr, rpma_mr_dereg);
}

static int run_srq_new(void)
{
    CREATE(srq, struct rpma_srq *, rpma_srq_new(peer, NULL, &created));
}

static int run_srq_delete(void)
{
    DELETE(srq, rpma_srq_delete);
}

static int run_ep_listen(void)
{
    CREATE(ep, struct rpma_ep *, rpma_ep_listen(peer, "here", "7204", &created));
}

static int run_ep_shutdown(void)
{
    DELETE(ep, rpma_ep_shutdown);
}

static int run_next_conn_req(void)
{
    CREATE(req, struct rpma_conn_req *, rpma_ep_next_conn_req(ep, cfg, &created));
}

static int run_conn_req_new(void)
{
    CREATE(req, struct rpma_conn_req *, rpma_conn_req_new(peer, "server", "7204", cfg, &created));
}

static int run_conn_req_delete(void)
{
    DELETE(req, rpma_conn_req_delete);
}

static int run_connect(void)
{
    CREATE(conn, struct rpma_conn *, rpma_conn_req_connect(&req, NULL, &created));
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
    DELETE(conn, rpma_conn_delete);
}

static int run_get_local_context(void)
{
    CREATE(context, struct ibv_context *, rpma_utils_get_ibv_context("here", RPMA_UTIL_IBV_CONTEXT_LOCAL, &created));
}

static int run_get_remote_context(void)
{
    CREATE(context, struct ibv_context *, rpma_utils_get_ibv_context("there", RPMA_UTIL_IBV_CONTEXT_REMOTE, &created));
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

const struct scenario scenarios[] = {
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

const size_t scenario_count = sizeof(scenarios) / sizeof(scenarios[0]);

void set_up(const struct scenario *scenario)
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
    after_deletion = BOGUS;
    if (scenario->device != NULL)
        scenario->device();
    if (scenario->prepare != NULL)
        scenario->prepare();
}

void clean_up(const struct scenario *scenario)
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

void assert_failed_cleanly(const struct scenario *scenario)
{
    if (scenario->creates)
        assert_ptr_equal(output, BOGUS);
    // The request is consumed even on error.
    if (scenario->run == run_connect)
        assert_null(req);
    if (scenario->deletes)
        assert_null(after_deletion);
}
