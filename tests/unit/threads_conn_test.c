// SPDX-License-Identifier: BSD-3-Clause
#include "threads.h"

// Calls that the public header allows at the same time run at the same time on one connection. Wrong counts fail the
// test; data races are detected in builds with ThreadSanitizer.

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

THREADS_TEST(operations_are_posted_concurrently_on_one_connection)
{
    run_all(post);
    assert_int_equal(fake_work_count(), THREADS * ROUNDS * 8);
}

THREADS_TEST(native_operations_are_posted_concurrently_on_one_connection)
{
    drop_conn(conn);
    drop_mr(mr);
    drop_peer(peer);
    fake_make_native();
    peer = make_peer();
    mr = make_mr(peer);
    conn = make_conn(peer, NULL);
    run_all(post);
    assert_int_equal(fake_work_count(), THREADS * ROUNDS * 8);
}

static void warn_of_unaligned_base(unsigned index)
{
    static const char word[8];
    for (unsigned i = 0; i < ROUNDS; ++i)
        expect(rpma_atomic_write(conn, remote, 8, word, 3, NULL) == 0);
}

THREADS_TEST(an_unaligned_region_is_warned_of_once_by_all_threads)
{
    drop_remote(remote);
    remote = make_remote(0x1001, MR_SIZE, 0xff);
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

THREADS_TEST(a_peer_configuration_is_applied_while_others_flush)
{
    static void (*const runs[THREADS])(unsigned) = {
            change_direct_write, flush_persistently, change_direct_write, flush_persistently};
    assert_int_equal(rpma_peer_cfg_new(&pcfg), 0);
    run_together(runs);
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

THREADS_TEST(events_of_one_connection_are_taken_concurrently)
{
    static void (*const runs[THREADS])(unsigned) = {take_events, give_events, take_events, give_events};
    run_together(runs);
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

THREADS_TEST(completion_events_of_one_queue_are_taken_concurrently)
{
    static void (*const runs[THREADS])(unsigned) = {wait_for_completions, fire, wait_for_completions, fire};
    run_together(runs);
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

THREADS_TEST(one_connection_is_queried_while_others_use_it)
{
    static void (*const runs[THREADS])(unsigned) = {query, post, query, post};
    run_together(runs);
}
