// SPDX-License-Identifier: BSD-3-Clause
#include "failure_scenarios.h"

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
