// SPDX-License-Identifier: BSD-3-Clause
#include "support.h"

#include <pthread.h>
#include <stdlib.h>

// RPMA_F_MORE: operations are queued and posted together.

enum {
    QUEUED = RPMA_F_COMPLETION_ON_ERROR | RPMA_F_MORE,
    KEEP_ALWAYS = RPMA_F_COMPLETION_ALWAYS | RPMA_F_MORE,
    ALWAYS = RPMA_F_COMPLETION_ALWAYS,
    MAX_QUEUED = 64
};

static int write_one(int flags, uintptr_t context)
{
    return rpma_write(conn, remote, 8 * context, mr, 16 * context, 5, flags, (void *)context);
}

static void assert_write(unsigned index, uintptr_t context, unsigned flags)
{
    const struct fake_work *const work = fake_work_at(index);
    assert_int_equal(work->kind, FAKE_WORK_SEND);
    assert_int_equal(work->opcode, IBV_WR_RDMA_WRITE);
    assert_ptr_equal(work->queue, newest_qp());
    assert_int_equal(work->wr_id, context);
    assert_int_equal(work->flags, flags);
    assert_int_equal(work->remote_addr, REMOTE_BASE + 8 * context);
    assert_int_equal(work->rkey, RKEY);
    assert_int_equal(work->num_sge, 1);
    assert_int_equal(work->sge.length, 5);
    assert_int_equal(work->sge.addr, (uintptr_t)test_memory + 16 * context);
}

PATH_TEST(queued_operations_are_posted_with_the_next_one)
{
    assert_int_equal(write_one(QUEUED, 1), 0);
    assert_int_equal(write_one(KEEP_ALWAYS, 2), 0);
    assert_calls("");
    assert_int_equal(fake_work_count(), 0);
    assert_int_equal(write_one(ALWAYS, 3), 0);
    assert_calls("ibv_post_send");
    assert_int_equal(fake_work_count(), 3);
    assert_write(0, 1, 0);
    assert_write(1, 2, IBV_SEND_SIGNALED);
    assert_write(2, 3, IBV_SEND_SIGNALED);
    assert_true(fake_work_at(0)->has_next);
    assert_false(fake_work_at(2)->has_next);
    // The batch is complete: the next operation is posted alone.
    assert_int_equal(write_one(ALWAYS, 4), 0);
    assert_calls("ibv_post_send ibv_post_send");
    assert_false(fake_work_at(3)->has_next);
}

PATH_TEST(every_operation_can_be_queued)
{
    char word[8] = "ABCDEFG";
    assert_int_equal(rpma_read(conn, mr, 1, remote, 2, 3, QUEUED, CONTEXT), 0);
    assert_int_equal(rpma_write_with_imm(conn, remote, 1, mr, 2, 3, QUEUED, 7, CONTEXT), 0);
    assert_int_equal(rpma_atomic_write(conn, remote, 16, word, QUEUED, CONTEXT), 0);
    assert_int_equal(rpma_send(conn, mr, 1, 2, QUEUED, CONTEXT), 0);
    assert_int_equal(rpma_send_with_imm(conn, mr, 1, 2, QUEUED, 9, CONTEXT), 0);
    assert_int_equal(rpma_write(conn, NULL, 0, NULL, 0, 0, QUEUED, CONTEXT), 0);
    assert_int_equal(rpma_send(conn, NULL, 0, 0, QUEUED, CONTEXT), 0);
    assert_int_equal(rpma_flush(conn, remote, 0, 8, RPMA_FLUSH_TYPE_PERSISTENT, KEEP_ALWAYS, CONTEXT), 0);
    // The caller may change the word as soon as the call has returned.
    memset(word, 0, sizeof(word));
    assert_calls("");
    assert_int_equal(rpma_conn_submit(conn), 0);
    assert_calls("ibv_post_send");
    static const enum ibv_wr_opcode opcodes[] = {IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE_WITH_IMM, IBV_WR_RDMA_WRITE,
            IBV_WR_SEND, IBV_WR_SEND_WITH_IMM, IBV_WR_RDMA_WRITE, IBV_WR_SEND, IBV_WR_RDMA_READ};
    assert_int_equal(fake_work_count(), 8);
    for (unsigned i = 0; i < 8; ++i) {
        assert_int_equal(fake_work_at(i)->opcode, opcodes[i]);
        assert_int_equal(fake_work_at(i)->wr_id, (uintptr_t)CONTEXT);
    }
    assert_int_equal(fake_work_at(1)->imm_data, htobe32(7));
    assert_int_equal(fake_work_at(4)->imm_data, htobe32(9));
    assert_string_equal((const char *)fake_work_at(2)->data, "ABCDEFG");
    assert_int_equal(fake_work_at(2)->flags, IBV_SEND_INLINE | IBV_SEND_FENCE);
    assert_int_equal(fake_work_at(5)->num_sge, 0);
    assert_int_equal(fake_work_at(6)->num_sge, 0);
    assert_int_equal(fake_work_at(7)->flags, IBV_SEND_SIGNALED);
}

NATIVE_PATH_TEST(native_operations_are_posted_with_the_others)
{
    char word[8] = "ABCDEFG";
    assert_int_equal(write_one(QUEUED, 1), 0);
    assert_int_equal(rpma_read(conn, mr, 1, remote, 2, 3, QUEUED, CONTEXT), 0);
    assert_int_equal(rpma_write_with_imm(conn, remote, 1, mr, 2, 3, QUEUED, 7, CONTEXT), 0);
    assert_int_equal(rpma_send(conn, mr, 1, 2, QUEUED, CONTEXT), 0);
    assert_int_equal(rpma_send_with_imm(conn, mr, 1, 2, QUEUED, 9, CONTEXT), 0);
    assert_int_equal(rpma_write(conn, NULL, 0, NULL, 0, 0, QUEUED, CONTEXT), 0);
    assert_int_equal(rpma_atomic_write(conn, remote, 16, word, QUEUED, CONTEXT), 0);
    memset(word, 0, sizeof(word));
    assert_calls("");
    assert_int_equal(rpma_flush(conn, remote, 24, 32, RPMA_FLUSH_TYPE_PERSISTENT, ALWAYS, CONTEXT), 0);
    assert_calls("ibv_wr_start ibv_wr_complete");
    assert_int_equal(fake_work_count(), 8);
    assert_write(0, 1, 0);
    assert_int_equal(fake_work_at(1)->opcode, IBV_WR_RDMA_READ);
    assert_int_equal(fake_work_at(2)->imm_data, htobe32(7));
    assert_int_equal(fake_work_at(3)->opcode, IBV_WR_SEND);
    assert_int_equal(fake_work_at(3)->sge.length, 2);
    assert_int_equal(fake_work_at(4)->imm_data, htobe32(9));
    assert_int_equal(fake_work_at(5)->num_sge, 0);
    assert_int_equal(fake_work_at(6)->kind, FAKE_WORK_ATOMIC_WRITE);
    assert_string_equal((const char *)fake_work_at(6)->data, "ABCDEFG");
    assert_int_equal(fake_work_at(6)->remote_addr, REMOTE_BASE + 16);
    assert_int_equal(fake_work_at(7)->kind, FAKE_WORK_FLUSH);
    assert_int_equal(fake_work_at(7)->flush_length, 32);
    assert_int_equal(fake_work_at(7)->remote_addr, REMOTE_BASE + 24);
    assert_int_equal(fake_work_at(7)->flags, IBV_SEND_SIGNALED);
    // The next operation is posted alone.
    assert_int_equal(rpma_atomic_write(conn, remote, 16, word, ALWAYS, CONTEXT), 0);
    assert_calls("ibv_wr_start ibv_wr_complete ibv_wr_start ibv_wr_complete");
}

NATIVE_PATH_TEST(a_batch_without_native_operations_is_a_chain)
{
    assert_int_equal(write_one(QUEUED, 1), 0);
    assert_int_equal(write_one(ALWAYS, 2), 0);
    assert_calls("ibv_post_send");
    assert_write(0, 1, 0);
    assert_write(1, 2, IBV_SEND_SIGNALED);
}

NATIVE_PATH_TEST(a_queued_native_atomic_write_waits_for_an_emulated_flush)
{
    setenv("RPMA_FLUSH_METHOD", "emulated", 1);
    make_path(REMOTE_BASE, MR_SIZE, 0xff);
    unsetenv("RPMA_FLUSH_METHOD");
    char word[8] = "ABCDEFG";
    assert_int_equal(rpma_flush(conn, remote, 0, 8, RPMA_FLUSH_TYPE_VISIBILITY, QUEUED, CONTEXT), 0);
    assert_int_equal(rpma_atomic_write(conn, remote, 0, word, ALWAYS, CONTEXT), 0);
    assert_int_equal(fake_work_count(), 2);
    assert_int_equal(fake_work_at(0)->opcode, IBV_WR_RDMA_READ);
    assert_int_equal(fake_work_at(1)->flags, IBV_SEND_SIGNALED | IBV_SEND_FENCE);
}

PATH_TEST(receives_are_not_queued)
{
    assert_int_equal(write_one(QUEUED, 1), 0);
    assert_int_equal(rpma_recv(conn, mr, 0, 8, CONTEXT), 0);
    assert_calls("ibv_post_recv");
    assert_ptr_equal(fake_last_work()->queue, newest_qp());
}

PATH_TEST(arguments_are_checked_before_queueing)
{
    const char word[8] = "";
    assert_int_equal(rpma_write(conn, remote, MR_SIZE, mr, 0, 1, QUEUED, NULL), RPMA_E_INVAL);
    assert_int_equal(rpma_read(conn, mr, MR_SIZE, remote, 0, 1, QUEUED, NULL), RPMA_E_INVAL);
    assert_int_equal(rpma_write(NULL, remote, 0, mr, 0, 1, QUEUED, NULL), RPMA_E_INVAL);
    assert_int_equal(rpma_atomic_write(conn, remote, 4, word, QUEUED, NULL), RPMA_E_INVAL);
    assert_int_equal(rpma_flush(conn, remote, MR_SIZE, 1, RPMA_FLUSH_TYPE_PERSISTENT, QUEUED, NULL), RPMA_E_INVAL);
    assert_int_equal(rpma_send(conn, mr, MR_SIZE, 1, QUEUED, NULL), RPMA_E_INVAL);
    assert_int_equal(rpma_conn_submit(conn), 0);
    assert_calls("");
}

PATH_TEST(a_full_batch_is_posted)
{
    for (unsigned i = 1; i < MAX_QUEUED; ++i)
        assert_int_equal(write_one(QUEUED, i), 0);
    assert_calls("");
    assert_int_equal(write_one(QUEUED, MAX_QUEUED), 0);
    assert_calls("ibv_post_send");
    assert_int_equal(fake_work_count(), MAX_QUEUED);
    assert_int_equal(write_one(QUEUED, 1), 0);
    assert_int_equal(rpma_conn_submit(conn), 0);
    assert_int_equal(fake_work_count(), MAX_QUEUED + 1);
    assert_calls("ibv_post_send ibv_post_send");
}

PATH_TEST(submitting_an_empty_batch_does_nothing)
{
    assert_int_equal(rpma_conn_submit(conn), 0);
    assert_int_equal(write_one(QUEUED, 1), 0);
    assert_int_equal(rpma_conn_submit(conn), 0);
    assert_int_equal(rpma_conn_submit(conn), 0);
    assert_calls("ibv_post_send");
}

PATH_TEST(operations_after_a_rejected_one_are_dropped)
{
    fake_device()->send_room = 2;
    assert_int_equal(write_one(QUEUED, 1), 0);
    assert_int_equal(write_one(QUEUED, 2), 0);
    assert_int_equal(write_one(QUEUED, 3), 0);
    assert_provider(write_one(ALWAYS, 4), ENOMEM);
    assert_int_equal(fake_work_count(), 2);
    assert_non_null(strstr(log_texts(), "2 of 4 work requests"));
    fake_device()->send_room = 0;
    // Their completions do not arrive later, either.
    assert_int_equal(write_one(ALWAYS, 5), 0);
    assert_int_equal(fake_work_count(), 3);
    assert_write(2, 5, IBV_SEND_SIGNALED);
}

PATH_TEST(a_failed_submission_returns_an_error)
{
    assert_int_equal(write_one(QUEUED, 1), 0);
    fake_fail_only("ibv_post_send");
    fake_fail_call(1, EINVAL, false);
    assert_provider(rpma_conn_submit(conn), EINVAL);
    assert_int_equal(fake_work_count(), 0);
    assert_int_equal(rpma_conn_submit(conn), 0);
}

NATIVE_PATH_TEST(a_rejected_native_batch_is_dropped_as_a_whole)
{
    assert_int_equal(write_one(QUEUED, 1), 0);
    fake_fail_only("ibv_wr_complete");
    fake_fail_call(1, ENOMEM, false);
    assert_provider(rpma_flush(conn, remote, 0, 8, RPMA_FLUSH_TYPE_PERSISTENT, ALWAYS, CONTEXT), ENOMEM);
    assert_int_equal(fake_work_count(), 0);
    assert_non_null(strstr(log_texts(), "dropped all 2 work requests"));
    assert_int_equal(write_one(ALWAYS, 2), 0);
    assert_int_equal(fake_work_count(), 1);
}

PATH_TEST(without_memory_operations_are_posted_at_once)
{
    fake_libc_fail(FAKE_MALLOC, 1, false);
    assert_int_equal(write_one(KEEP_ALWAYS, 1), 0);
    assert_calls("ibv_post_send");
    assert_write(0, 1, IBV_SEND_SIGNALED);
}

PATH_TEST(waiting_posts_queued_operations)
{
    struct rpma_cq *cq = NULL;
    assert_int_equal(rpma_conn_get_cq(conn, &cq), 0);
    fake_fire(newest_qp()->send_cq);
    assert_int_equal(write_one(KEEP_ALWAYS, 1), 0);
    assert_int_equal(rpma_cq_wait(cq), 0);
    assert_calls("ibv_post_send ibv_get_cq_event ibv_ack_cq_events ibv_req_notify_cq");
    assert_write(0, 1, IBV_SEND_SIGNALED);

    // The wait fails if the device rejects the queued request.
    assert_int_equal(write_one(KEEP_ALWAYS, 2), 0);
    fake_fail_only("ibv_post_send");
    fake_fail_call(1, ENOMEM, false);
    assert_provider(rpma_cq_wait(cq), ENOMEM);
    assert_int_equal(fake_work_count(), 1);
}

PATH_TEST(waiting_for_either_queue_posts_queued_operations)
{
    for (int shared = 0; shared < 2; ++shared) {
        cfg = make_cfg(shared, 5);
        struct rpma_conn *both = make_conn(peer, cfg);
        assert_int_equal(rpma_conn_cfg_delete(&cfg), 0);
        struct rpma_cq *rcq = NULL;
        assert_int_equal(rpma_conn_get_rcq(both, &rcq), 0);
        fake_fire(newest_qp()->recv_cq);
        fake_forget_calls();
        assert_int_equal(rpma_write(both, remote, 0, mr, 0, 1, QUEUED, NULL), 0);
        struct rpma_cq *fired = rcq;
        assert_int_equal(shared ? rpma_conn_wait(both, 0, &fired, NULL) : rpma_cq_wait(rcq), 0);
        assert_ptr_equal(fired, rcq);
        assert_calls("ibv_post_send ibv_get_cq_event ibv_ack_cq_events ibv_req_notify_cq");
        drop_conn(both);
    }
}

PATH_TEST(disconnecting_posts_queued_operations)
{
    assert_int_equal(write_one(QUEUED, 1), 0);
    assert_int_equal(rpma_conn_disconnect(conn), 0);
    assert_calls("ibv_post_send rdma_disconnect");
}

PATH_TEST(deleting_drops_queued_operations)
{
    assert_int_equal(write_one(QUEUED, 1), 0);
    drop_objects();
    assert_int_equal(fake_work_count(), 0);
}

enum {
    THREADS = 4,
    ROUNDS = 500
};

static void *writes(void *state)
{
    int failed = 0;
    for (unsigned i = 0; i < ROUNDS; ++i)
        failed |= write_one(QUEUED, 1) | write_one(QUEUED, 2) | write_one(ALWAYS, 3);
    return failed == 0 ? NULL : mr;
}

PATH_TEST(threads_share_a_batch)
{
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; ++i)
        assert_int_equal(pthread_create(&threads[i], NULL, writes, NULL), 0);
    for (unsigned i = 0; i < THREADS; ++i) {
        void *failed = NULL;
        assert_int_equal(pthread_join(threads[i], &failed), 0);
        assert_null(failed);
    }
    assert_int_equal(rpma_conn_submit(conn), 0);
    assert_int_equal(fake_work_count(), THREADS * ROUNDS * 3);
}

TEST(the_version_is_that_of_the_header)
{
    assert_int_equal(rpma_version(), LIBRPMA_VERSION);
    assert_int_equal(LIBRPMA_VERSION, 0x010400);
}
