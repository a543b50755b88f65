// SPDX-License-Identifier: BSD-3-Clause
/* Calls that several threads may make at the same time. */
#include "../driver/suite.h"
#include "../support/rdma.h"

#include <pthread.h>
#include <stdatomic.h>

SUITE(thread);

#define THREADS 4
#define ROUNDS 200

/* cmocka's assertions work only in the main thread, so other threads count failures. */
static atomic_int failures;
#define EXPECT(condition) ((condition) ? (void)0 : (void)atomic_fetch_add(&failures, 1))

struct job {
    void *shared;
    size_t number;
};

static void run_in_threads(void *(*run)(void *job), void *shared)
{
    pthread_t threads[THREADS];
    struct job jobs[THREADS];
    for (size_t i = 0; i < THREADS; ++i) {
        jobs[i] = (struct job){shared, i};
        assert_int_equal(pthread_create(&threads[i], NULL, run, &jobs[i]), 0);
    }
    for (size_t i = 0; i < THREADS; ++i)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(atomic_load(&failures), 0);
}

static void *make_peers(void *argument)
{
    const struct job *job = argument;
    for (int i = 0; i < ROUNDS; ++i) {
        struct rpma_peer *peer = NULL;
        EXPECT(rpma_peer_new(job->shared, &peer) == 0);
        EXPECT(rpma_peer_delete(&peer) == 0);
    }
    return NULL;
}

CALL_CASE(peers_of_one_device_are_created_concurrently, run_in_threads(make_peers, device()));

static void *register_regions(void *argument)
{
    const struct job *job = argument;
    static char memory[THREADS][4096];
    for (int i = 0; i < ROUNDS; ++i) {
        struct rpma_mr_local *mr = NULL;
        EXPECT(rpma_mr_reg(job->shared, memory[job->number], 4096, USAGE_ALL, &mr) == 0);
        EXPECT(rpma_mr_dereg(&mr) == 0);
    }
    return NULL;
}

CALL_CASE(regions_of_one_peer_are_registered_at_once, run_in_threads(register_regions, new_peer()));

static void *describe_region(void *argument)
{
    const struct job *job = argument;
    for (int i = 0; i < ROUNDS; ++i) {
        unsigned char descriptor[DESCRIPTOR_SIZE];
        struct rpma_mr_remote *remote = NULL;
        size_t size = 0;
        EXPECT(rpma_mr_get_descriptor(job->shared, descriptor) == 0);
        EXPECT(rpma_mr_remote_from_descriptor(descriptor, sizeof(descriptor), &remote) == 0);
        EXPECT(rpma_mr_remote_get_size(remote, &size) == 0 && size == 4096);
        EXPECT(rpma_mr_remote_delete(&remote) == 0);
    }
    return NULL;
}

CALL_CASE(one_region_is_described_at_once, run_in_threads(describe_region, new_region(new_peer(), 4096, USAGE_ALL).mr));

static void *change_cfg(void *argument)
{
    const struct job *job = argument;
    for (int i = 0; i < ROUNDS * 50; ++i) {
        uint32_t size = 0;
        EXPECT(rpma_conn_cfg_set_sq_size(job->shared, (uint32_t)job->number + 1) == 0);
        EXPECT(rpma_conn_cfg_get_sq_size(job->shared, &size) == 0 && size >= 1 && size <= THREADS);
    }
    return NULL;
}

CALL_CASE(one_connection_cfg_is_changed_and_read_at_once, run_in_threads(change_cfg, new_cfg()));

static void *change_peer_cfg(void *argument)
{
    const struct job *job = argument;
    for (int i = 0; i < ROUNDS * 50; ++i) {
        unsigned char descriptor = 77;
        EXPECT(rpma_peer_cfg_set_direct_write_to_pmem(job->shared, job->number % 2) == 0);
        EXPECT(rpma_peer_cfg_get_descriptor(job->shared, &descriptor) == 0 && descriptor <= 1);
    }
    return NULL;
}

CASE(one_peer_cfg_is_changed_and_read_at_once)
{
    struct rpma_peer_cfg *cfg = NULL;
    assert_done(rpma_peer_cfg_new(&cfg));
    run_in_threads(change_peer_cfg, cfg);
}

static void *change_thresholds(void *argument)
{
    const struct job *job = argument;
    for (int i = 0; i < ROUNDS * 50; ++i) {
        enum rpma_log_level level = RPMA_LOG_LEVEL_FATAL;
        int result;
        do {
            result = rpma_log_set_threshold(RPMA_LOG_THRESHOLD, (enum rpma_log_level)job->number);
        } while (result == RPMA_E_AGAIN);
        EXPECT(result == 0);
        EXPECT(rpma_log_get_threshold(RPMA_LOG_THRESHOLD, &level) == 0);
        EXPECT((int)level >= 0 && (int)level < THREADS);
    }
    return NULL;
}

CALL_CASE(log_thresholds_are_changed_and_read_at_once, run_in_threads(change_thresholds, NULL));

static atomic_int messages;

static void count_message(enum rpma_log_level level, const char *file_name, const int line_no,
        const char *function_name, const char *message_format, ...)
{
    atomic_fetch_add(&messages, 1);
}

static void *log_errors(void *argument)
{
    for (int i = 0; i < ROUNDS; ++i) {
        struct rpma_peer_cfg *cfg = NULL;
        EXPECT(rpma_peer_cfg_from_descriptor("", 0, &cfg) == RPMA_E_INVAL);
    }
    return NULL;
}

CASE(messages_are_logged_at_once)
{
    assert_done(rpma_log_set_function(count_message));
    run_in_threads(log_errors, NULL);
    assert_int_equal(atomic_load(&messages), THREADS * ROUNDS);
}

static void *write_and_collect(void *argument)
{
    const struct job *job = argument;
    struct pair *pairs = job->shared;
    struct pair *pair = &pairs[job->number];
    size_t at = job->number * 4096;
    for (unsigned i = 1; i <= ROUNDS; ++i) {
        struct ibv_wc wc = {0};
        int result;
        fill(pair->client.memory.ptr + at, 4096, i);
        EXPECT(rpma_write(pair->client.conn, pair->client.remote, at, pair->client.memory.mr, at, 4096, ALWAYS, pair) ==
                0);
        do {
            EXPECT(rpma_cq_wait(pair->client.cq) == 0);
            result = rpma_cq_get_wc(pair->client.cq, 1, &wc, NULL);
        } while (result == RPMA_E_NO_COMPLETION);
        EXPECT(result == 0 && wc.status == IBV_WC_SUCCESS && wc.wr_id == (uintptr_t)pair);
        EXPECT(!memcmp(pair->server.memory.ptr + at, pair->client.memory.ptr + at, 4096));
    }
    return NULL;
}

CASE(threads_use_separate_connections)
{
    struct pair pairs[THREADS];
    pairs[0] = connect_pair();
    for (size_t i = 1; i < THREADS; ++i)
        pairs[i] = connect_again(&pairs[0]);
    run_in_threads(write_and_collect, pairs);
}

static void *post_writes(void *argument)
{
    const struct job *job = argument;
    struct pair *pair = job->shared;
    for (int i = 0; i < ROUNDS; ++i)
        EXPECT(rpma_write(pair->client.conn, pair->client.remote, job->number * 8, pair->client.memory.mr,
                       job->number * 8, 8, ALWAYS, &job->number) == 0);
    return NULL;
}

static struct pair pair_with_long_queues(void)
{
    struct rpma_conn_cfg *cfg = new_cfg();
    assert_done(rpma_conn_cfg_set_sq_size(cfg, THREADS * ROUNDS));
    assert_done(rpma_conn_cfg_set_cq_size(cfg, THREADS * ROUNDS));
    return connect_pair_with(new_peer(), cfg, NULL);
}

CASE(threads_post_on_one_connection_at_once)
{
    struct pair pair = pair_with_long_queues();
    fill(pair.client.memory.ptr, THREADS * 8, 1);
    run_in_threads(post_writes, &pair);
    for (int i = 0; i < THREADS * ROUNDS; ++i)
        assert_int_equal(next_completion(pair.client.cq).status, IBV_WC_SUCCESS);
    assert_filled(pair.server.memory.ptr, THREADS * 8, 1);
}

static atomic_int collected;

static void *collect(void *argument)
{
    const struct job *job = argument;
    struct pair *pair = job->shared;
    while (atomic_load(&collected) < THREADS * ROUNDS) {
        struct ibv_wc wc[4];
        int got = 0;
        int result = rpma_cq_get_wc(pair->client.cq, 4, wc, &got);
        EXPECT(result == 0 || result == RPMA_E_NO_COMPLETION);
        for (int i = 0; i < got; ++i)
            EXPECT(wc[i].status == IBV_WC_SUCCESS);
        atomic_fetch_add(&collected, got);
        usleep(100);
    }
    return NULL;
}

CASE(threads_poll_one_queue_concurrently)
{
    struct pair pair = pair_with_long_queues();
    for (int i = 0; i < THREADS * ROUNDS; ++i)
        assert_done(rpma_write(pair.client.conn, NULL, 0, NULL, 0, 0, ALWAYS, NULL));
    run_in_threads(collect, &pair);
    assert_int_equal(atomic_load(&collected), THREADS * ROUNDS);
}

static void *end_with_event(void *argument)
{
    struct pair *pair = argument;
    enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
    EXPECT(rpma_conn_next_event(pair->server.conn, &event) == 0 && event == RPMA_CONN_CLOSED);
    return NULL;
}

CASE(one_thread_waits_for_events_while_another_operates)
{
    struct pair pair = connect_pair();
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, end_with_event, &pair), 0);
    for (int i = 0; i < ROUNDS; ++i) {
        assert_done(rpma_write(pair.server.conn, pair.server.remote, 0, pair.server.memory.mr, 0, 64, ALWAYS, &pair));
        expect_success(pair.server.cq, IBV_WC_RDMA_WRITE, &pair);
    }
    assert_done(rpma_conn_disconnect(pair.client.conn));
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(atomic_load(&failures), 0);
}

static void *connect_and_leave(void *argument)
{
    const struct job *job = argument;
    const struct listener *listener = job->shared;
    for (int i = 0; i < 5; ++i) {
        struct rpma_conn_req *req = NULL;
        struct rpma_conn *conn = NULL;
        enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
        EXPECT(rpma_conn_req_new(listener->peer, case_address, listener->port, NULL, &req) == 0);
        EXPECT(rpma_conn_req_connect(&req, NULL, &conn) == 0);
        EXPECT(conn && rpma_conn_next_event(conn, &event) == 0 && event == RPMA_CONN_ESTABLISHED);
        EXPECT(rpma_conn_delete(&conn) == 0);
    }
    return NULL;
}

static void *accept_all(void *argument)
{
    struct rpma_ep *ep = argument;
    for (int i = 0; i < THREADS * 5; ++i) {
        struct rpma_conn_req *req = NULL;
        struct rpma_conn *conn = NULL;
        enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
        EXPECT(rpma_ep_next_conn_req(ep, NULL, &req) == 0);
        EXPECT(rpma_conn_req_connect(&req, NULL, &conn) == 0);
        EXPECT(conn && rpma_conn_next_event(conn, &event) == 0);
    }
    return NULL;
}

CASE(threads_connect_through_one_peer_at_once)
{
    struct listener listener = listen_somewhere(new_peer());
    pthread_t server;
    assert_int_equal(pthread_create(&server, NULL, accept_all, listener.ep), 0);
    run_in_threads(connect_and_leave, &listener);
    assert_int_equal(pthread_join(server, NULL), 0);
    assert_int_equal(atomic_load(&failures), 0);
}
