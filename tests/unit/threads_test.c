// SPDX-License-Identifier: BSD-3-Clause
#include "support.h"

#include <pthread.h>

// Calls that the public header allows at the same time run at the same time. Wrong counts fail the test; data races are
// detected in builds with ThreadSanitizer.

enum {
    THREADS = 4,
    ROUNDS = 200,
    FEW_ROUNDS = 50
};

static pthread_barrier_t start;
static unsigned wrong;

// cmocka's assertions work on the main thread only: other threads count failures.
static void expect(bool right)
{
    if (!right)
        __atomic_add_fetch(&wrong, 1, __ATOMIC_RELAXED);
}

struct work {
    void (*run)(unsigned index);
    unsigned index;
};

static void *run_work(void *argument)
{
    const struct work *const work = argument;
    pthread_barrier_wait(&start);
    work->run(work->index);
    return NULL;
}

// Runs each function in a thread. All start together. Fails the test if an expectation was not met.
static void run_together(void (*const runs[THREADS])(unsigned index))
{
    pthread_t threads[THREADS];
    struct work work[THREADS];
    wrong = 0;
    pthread_barrier_init(&start, NULL, THREADS);
    for (unsigned i = 0; i < THREADS; ++i) {
        work[i].run = runs[i];
        work[i].index = i;
        assert_int_equal(pthread_create(&threads[i], NULL, run_work, &work[i]), 0);
    }
    for (unsigned i = 0; i < THREADS; ++i)
        pthread_join(threads[i], NULL);
    pthread_barrier_destroy(&start);
    assert_int_equal(wrong, 0);
}

// Half of the threads run each function.
static void run_both(void (*first)(unsigned index), void (*second)(unsigned index))
{
    void (*const runs[THREADS])(unsigned) = {first, second, first, second};
    run_together(runs);
}

static void run_all(void (*run)(unsigned index))
{
    run_both(run, run);
}

static void post(unsigned index)
{
    static const char word[8];
    const void *const context = (const void *)(uintptr_t)(index + 1);
    for (unsigned i = 0; i < ROUNDS; ++i) {
        expect(rpma_read(conn, mr, 0, remote, 0, 8, 3, context) == 0);
        expect(rpma_write(conn, remote, 0, mr, 0, 8, 1, context) == 0);
        expect(rpma_write_with_imm(conn, remote, 0, mr, 0, 8, 3, 5, context) == 0);
        expect(rpma_atomic_write(conn, remote, 8, word, 3, context) == 0);
        expect(rpma_flush(conn, remote, 0, 8, RPMA_FLUSH_TYPE_VISIBILITY, 3, context) == 0);
        expect(rpma_send(conn, mr, 0, 8, 3, context) == 0);
        expect(rpma_send_with_imm(conn, mr, 0, 8, 3, 5, context) == 0);
        expect(rpma_recv(conn, mr, 0, 8, context) == 0);
    }
}

PATH_TEST(operations_are_posted_concurrently_on_one_connection)
{
    run_all(post);
    assert_int_equal(fake_work_count(), THREADS * ROUNDS * 8);
}

NATIVE_PATH_TEST(native_operations_are_posted_concurrently_on_one_connection)
{
    run_all(post);
    assert_int_equal(fake_work_count(), THREADS * ROUNDS * 8);
}

static void warn_of_unaligned_base(unsigned index)
{
    static const char word[8];
    for (unsigned i = 0; i < ROUNDS; ++i)
        expect(rpma_atomic_write(conn, remote, 8, word, 3, NULL) == 0);
}

PATH_TEST(an_unaligned_region_is_warned_of_once_by_all_threads)
{
    make_path(REMOTE_BASE + 1, MR_SIZE, 0xff);
    run_all(warn_of_unaligned_base);
    assert_int_equal(log_count(RPMA_LOG_LEVEL_WARNING), 1);
}

static struct rpma_peer_cfg *pcfg;

static void change_direct_write(unsigned index)
{
    for (unsigned i = 0; i < ROUNDS; ++i) {
        bool supported = false;
        unsigned char desc = 7;
        expect(rpma_peer_cfg_set_direct_write_to_pmem(pcfg, (i + index) % 2 == 0) == 0);
        expect(rpma_peer_cfg_get_direct_write_to_pmem(pcfg, &supported) == 0);
        expect(rpma_peer_cfg_get_descriptor(pcfg, &desc) == 0 && desc <= 1);
        expect(rpma_conn_apply_remote_peer_cfg(conn, pcfg) == 0);
    }
}

static void flush_persistently(unsigned index)
{
    for (unsigned i = 0; i < ROUNDS; ++i) {
        const int code = rpma_flush(conn, remote, 0, 8, RPMA_FLUSH_TYPE_PERSISTENT, 3, NULL);
        expect(code == 0 || code == RPMA_E_NOSUPP);
    }
}

PATH_TEST(a_peer_configuration_is_applied_while_others_flush)
{
    assert_int_equal(rpma_peer_cfg_new(&pcfg), 0);
    run_both(change_direct_write, flush_persistently);
    assert_int_equal(rpma_peer_cfg_delete(&pcfg), 0);
}

static void take_events(unsigned index)
{
    for (unsigned i = 0; i < ROUNDS; ++i) {
        enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
        struct rpma_conn_private_data pdata = {NULL, 0};
        expect(rpma_conn_next_event(conn, &event) == 0 && event == RPMA_CONN_ESTABLISHED);
        expect(rpma_conn_get_private_data(conn, &pdata) == 0);
    }
}

static void give_events(unsigned index)
{
    struct rdma_cm_id *const id = fake_live(FAKE_CM_ID, 0);
    for (unsigned i = 0; i < ROUNDS; ++i)
        fake_event(id, RDMA_CM_EVENT_ESTABLISHED, NULL, 0);
}

PATH_TEST(events_of_one_connection_are_taken_concurrently)
{
    run_both(take_events, give_events);
}

static void wait_for_completions(unsigned index)
{
    struct rpma_cq *cq = NULL;
    expect(rpma_conn_get_cq(conn, &cq) == 0);
    for (unsigned i = 0; i < ROUNDS; ++i)
        expect(rpma_cq_wait(cq) == 0);
}

static void fire(unsigned index)
{
    struct ibv_cq *const face = fake_live(FAKE_CQ, 0);
    for (unsigned i = 0; i < ROUNDS; ++i)
        fake_fire(face);
}

PATH_TEST(completion_events_of_one_queue_are_taken_concurrently)
{
    run_both(wait_for_completions, fire);
}

static void query(unsigned index)
{
    for (unsigned i = 0; i < ROUNDS; ++i) {
        int fd = -1;
        uint32_t qp_num = 0;
        size_t size = 0;
        unsigned char desc[21];
        struct rpma_cq *cq = NULL;
        expect(rpma_conn_get_event_fd(conn, &fd) == 0 && fd >= 0);
        expect(rpma_conn_get_qp_num(conn, &qp_num) == 0 && qp_num != 0);
        expect(rpma_conn_get_rcq(conn, &cq) == 0 && cq == NULL);
        expect(rpma_mr_get_descriptor(mr, desc) == 0 && desc[20] != 0);
        expect(rpma_mr_advise(mr, 0, 8, 0, 0) == 0);
        expect(rpma_mr_remote_get_size(remote, &size) == 0 && size == MR_SIZE);
        expect(rpma_conn_disconnect(conn) == 0);
    }
}

PATH_TEST(one_connection_is_queried_while_others_use_it)
{
    run_both(query, post);
}

static void connect_and_delete(unsigned index)
{
    for (unsigned i = 0; i < FEW_ROUNDS; ++i) {
        struct rpma_conn_req *outgoing = NULL;
        struct rpma_conn *own = NULL;
        uint32_t qp_num = 0;
        expect(rpma_conn_req_new(peer, "server", "7204", NULL, &outgoing) == 0);
        expect(rpma_conn_req_connect(&outgoing, NULL, &own) == 0);
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

static void make_srqs_and_regions(unsigned index)
{
    static char memory[64];
    for (unsigned i = 0; i < FEW_ROUNDS; ++i) {
        struct rpma_srq *own = NULL;
        struct rpma_mr_local *region = NULL;
        expect(rpma_srq_new(peer, NULL, &own) == 0);
        expect(rpma_mr_reg(peer, memory, 16 + i % 32, 0xff, &region) == 0);
        expect(rpma_srq_recv(own, region, 0, 8, NULL) == 0);
        expect(rpma_mr_dereg(&region) == 0);
        expect(rpma_srq_delete(&own) == 0);
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

PATH_TEST(distinct_objects_of_every_kind_are_created_concurrently)
{
    static void (*const runs[THREADS])(unsigned) = {
            listen_and_accept, make_srqs_and_regions, find_device_and_make_peers, connect_and_delete};
    run_together(runs);
}

static struct rpma_srq_cfg *srq_cfg;

static void change_configurations(unsigned index)
{
    for (unsigned i = 0; i < ROUNDS; ++i) {
        uint32_t size = 0;
        int timeout_ms = -1;
        bool shared = false;
        struct rpma_srq *found = NULL;
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
        expect(rpma_conn_cfg_get_srq(cfg, &found) == 0 && found == BOGUS);
        expect(rpma_srq_cfg_set_rq_size(srq_cfg, 10 + index) == 0);
        expect(rpma_srq_cfg_get_rq_size(srq_cfg, &size) == 0 && size >= 10 && size < 20 + THREADS);
        expect(rpma_srq_cfg_set_rcq_size(srq_cfg, 10 + index) == 0);
        expect(rpma_srq_cfg_get_rcq_size(srq_cfg, &size) == 0 && size >= 10 && size < 20 + THREADS);
    }
}

PATH_TEST(one_configuration_is_changed_and_read_concurrently)
{
    assert_int_equal(rpma_conn_cfg_new(&cfg), 0);
    assert_int_equal(rpma_srq_cfg_new(&srq_cfg), 0);
    run_all(change_configurations);
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

PATH_TEST(logging_is_changed_while_others_log)
{
    run_both(change_logging, provoke_errors);
}
