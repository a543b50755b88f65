// SPDX-License-Identifier: BSD-3-Clause
#include "threads.h"

// Calls that the public header allows at the same time run at the same time. Wrong counts fail the test; data races are
// detected in builds with ThreadSanitizer.

static void register_memory(unsigned index)
{
    static char memory[THREADS][64];
    for (unsigned i = 0; i < ROUNDS; ++i) {
        struct rpma_mr_local *own = NULL;
        size_t size = 0;
        expect(rpma_mr_reg(peer, memory[index], 16 + i % 32, 0xff, &own) == 0);
        expect(rpma_mr_get_size(own, &size) == 0 && size == 16 + i % 32);
        expect(rpma_mr_dereg(&own) == 0);
    }
}

static void connect_and_delete(unsigned index)
{
    for (unsigned i = 0; i < FEW_ROUNDS; ++i) {
        struct rpma_conn_req *req = NULL;
        struct rpma_conn *own = NULL;
        uint32_t qp_num = 0;
        expect(rpma_conn_req_new(peer, "server", "7204", NULL, &req) == 0);
        expect(rpma_conn_req_connect(&req, NULL, &own) == 0);
        expect(rpma_conn_get_qp_num(own, &qp_num) == 0 && qp_num != 0);
        expect(rpma_conn_disconnect(own) == 0);
        expect(rpma_conn_delete(&own) == 0);
    }
}

static void listen_and_accept(unsigned index)
{
    for (unsigned i = 0; i < FEW_ROUNDS; ++i) {
        struct rpma_ep *own = NULL;
        expect(rpma_ep_listen(peer, "here", "7204", &own) == 0);
        expect(rpma_ep_shutdown(&own) == 0);
    }
}

static void make_srqs(unsigned index)
{
    for (unsigned i = 0; i < FEW_ROUNDS; ++i) {
        struct rpma_srq *srq = NULL;
        expect(rpma_srq_new(peer, NULL, &srq) == 0);
        expect(rpma_srq_recv(srq, mr, 0, 8, NULL) == 0);
        expect(rpma_srq_delete(&srq) == 0);
    }
}

static void find_device_and_make_peers(unsigned index)
{
    for (unsigned i = 0; i < FEW_ROUNDS; ++i) {
        struct ibv_context *context = NULL;
        struct rpma_peer *own = NULL;
        int capable = -1;
        expect(rpma_utils_get_ibv_context("here",
                       (index + i) % 2 == 0 ? RPMA_UTIL_IBV_CONTEXT_LOCAL : RPMA_UTIL_IBV_CONTEXT_REMOTE,
                       &context) == 0);
        expect(rpma_utils_ibv_context_is_odp_capable(context, &capable) == 0 && capable == 0);
        expect(rpma_peer_new(context, &own) == 0);
        expect(rpma_peer_delete(&own) == 0);
    }
}

THREADS_TEST(distinct_objects_of_every_kind_are_created_concurrently)
{
    static void (*const runs[THREADS])(unsigned) = {
            listen_and_accept, make_srqs, find_device_and_make_peers, connect_and_delete};
    run_together(runs);
}

static struct rpma_conn_cfg *cfg;
static struct rpma_srq_cfg *srq_cfg;

static void change_configurations(unsigned index)
{
    for (unsigned i = 0; i < ROUNDS; ++i) {
        uint32_t size = 0;
        int timeout_ms = -1;
        bool shared = false;
        struct rpma_srq *srq = NULL;
        expect(rpma_conn_cfg_set_timeout(cfg, (int)(1000 + index)) == 0);
        expect(rpma_conn_cfg_get_timeout(cfg, &timeout_ms) == 0 && timeout_ms >= 1000 && timeout_ms < 1000 + THREADS);
        expect(rpma_conn_cfg_set_cq_size(cfg, 10 + index) == 0);
        expect(rpma_conn_cfg_get_cq_size(cfg, &size) == 0 && size >= 10 && size < 10 + THREADS);
        expect(rpma_conn_cfg_set_rcq_size(cfg, 10 + index) == 0);
        expect(rpma_conn_cfg_get_rcq_size(cfg, &size) == 0 && size >= 10 && size < 10 + THREADS);
        expect(rpma_conn_cfg_set_sq_size(cfg, 10 + index) == 0);
        expect(rpma_conn_cfg_get_sq_size(cfg, &size) == 0 && size >= 10 && size < 10 + THREADS);
        expect(rpma_conn_cfg_set_rq_size(cfg, 10 + index) == 0);
        expect(rpma_conn_cfg_get_rq_size(cfg, &size) == 0 && size >= 10 && size < 10 + THREADS);
        expect(rpma_conn_cfg_set_compl_channel(cfg, index % 2 == 0) == 0);
        expect(rpma_conn_cfg_get_compl_channel(cfg, &shared) == 0);
        expect(rpma_conn_cfg_set_srq(cfg, BOGUS) == 0);
        expect(rpma_conn_cfg_get_srq(cfg, &srq) == 0 && srq == BOGUS);
        expect(rpma_srq_cfg_set_rq_size(srq_cfg, 10 + index) == 0);
        expect(rpma_srq_cfg_get_rq_size(srq_cfg, &size) == 0 && size >= 10 && size < 20 + THREADS);
        expect(rpma_srq_cfg_set_rcq_size(srq_cfg, 10 + index) == 0);
        expect(rpma_srq_cfg_get_rcq_size(srq_cfg, &size) == 0 && size >= 10 && size < 20 + THREADS);
    }
}

THREADS_TEST(one_configuration_is_changed_and_read_concurrently)
{
    assert_int_equal(rpma_conn_cfg_new(&cfg), 0);
    assert_int_equal(rpma_srq_cfg_new(&srq_cfg), 0);
    run_all(change_configurations);
    assert_int_equal(rpma_conn_cfg_delete(&cfg), 0);
    assert_int_equal(rpma_srq_cfg_delete(&srq_cfg), 0);
}

static void change_logging(unsigned index)
{
    for (unsigned i = 0; i < ROUNDS; ++i) {
        enum rpma_log_level level = RPMA_LOG_DISABLED;
        expect(rpma_log_set_threshold(RPMA_LOG_THRESHOLD, i % 2 == 0 ? RPMA_LOG_LEVEL_ERROR : RPMA_LOG_DISABLED) == 0);
        expect(rpma_log_get_threshold(RPMA_LOG_THRESHOLD_AUX, &level) == 0 && level == RPMA_LOG_DISABLED);
        if (index == 0)
            expect(rpma_log_set_function(NULL) == 0);
    }
}

static void provoke_errors(unsigned index)
{
    for (unsigned i = 0; i < ROUNDS; ++i) {
        struct rpma_peer_cfg *none = NULL;
        expect(rpma_peer_cfg_from_descriptor("", 0, &none) == RPMA_E_INVAL);
        expect(rpma_err_2str(RPMA_E_INVAL) != NULL);
    }
}

THREADS_TEST(logging_is_changed_while_others_log)
{
    static void (*const runs[THREADS])(unsigned) = {change_logging, provoke_errors, change_logging, provoke_errors};
    run_together(runs);
}

static void serve_requests(unsigned index)
{
    for (unsigned i = 0; i < FEW_ROUNDS; ++i) {
        struct rpma_conn_req *req = NULL;
        struct rpma_conn *own = NULL;
        fake_incoming("hello", 6);
        expect(rpma_ep_next_conn_req(ep, NULL, &req) == 0);
        expect(rpma_conn_req_connect(&req, NULL, &own) == 0);
        expect(rpma_conn_delete(&own) == 0);
    }
}

THREADS_TEST(a_server_answers_while_clients_connect)
{
    static void (*const runs[THREADS])(unsigned) = {
            serve_requests, connect_and_delete, register_memory, connect_and_delete};
    ep = make_ep(peer);
    run_together(runs);
    drop_ep(ep);
}
