// SPDX-License-Identifier: BSD-3-Clause
#include "support.h"

#include <stdlib.h>

static const char word[8] = "12345678";

static void assert_native(unsigned flags)
{
    fake_forget_calls();
    assert_done(rpma_atomic_write(conn, remote, 16, word, RPMA_F_COMPLETION_ALWAYS, CONTEXT));
    assert_calls("ibv_wr_start ibv_wr_complete");
    const struct fake_work *const work = fake_last_work();
    assert_int_equal(work->kind, FAKE_WORK_ATOMIC_WRITE);
    assert_ptr_equal(work->queue, newest_qp());
    assert_int_equal(work->wr_id, (uintptr_t)CONTEXT);
    assert_int_equal(work->flags, IBV_SEND_SIGNALED | flags);
    assert_int_equal(work->rkey, RKEY);
    assert_int_equal(work->remote_addr, REMOTE_BASE + 16);
    assert_memory_equal(work->data, word, sizeof(word));
    assert_int_equal(rpma_atomic_write(conn, remote, 16, word, RPMA_F_COMPLETION_ON_ERROR, CONTEXT), 0);
    assert_int_equal(fake_last_work()->flags, flags);
}

static void assert_emulated(void)
{
    fake_forget_calls();
    assert_done(rpma_atomic_write(conn, remote, 16, word, ODD_FLAGS, CONTEXT));
    assert_calls("ibv_post_send");
    const struct fake_work *const work = fake_last_work();
    assert_int_equal(work->opcode, IBV_WR_RDMA_WRITE);
    assert_int_equal(work->flags, IBV_SEND_SIGNALED | IBV_SEND_INLINE | IBV_SEND_FENCE);
    assert_int_equal(work->wr_id, (uintptr_t)CONTEXT);
    assert_int_equal(work->remote_addr, REMOTE_BASE + 16);
    assert_int_equal(work->rkey, RKEY);
    assert_int_equal(work->num_sge, 1);
    assert_int_equal(work->sge.addr, (uintptr_t)word);
    assert_int_equal(work->sge.length, 8);
    assert_memory_equal(work->data, word, sizeof(word));
    assert_false(work->has_next);
    assert_int_equal(rpma_atomic_write(conn, remote, 16, word, RPMA_F_COMPLETION_ON_ERROR, CONTEXT), 0);
    assert_int_equal(fake_last_work()->flags, IBV_SEND_INLINE | IBV_SEND_FENCE);
}

TEST(a_plain_device_gets_a_fenced_inline_write)
{
    make_path(REMOTE_BASE, MR_SIZE, 0xff);
    assert_emulated();
}

TEST(a_capable_device_does_it_natively_and_without_fence)
{
    fake_make_native();
    make_path(REMOTE_BASE, MR_SIZE, 0xff);
    assert_native(0);
}

TEST(beside_emulated_flush_the_native_operation_is_fenced)
{
    fake_device()->capabilities = 1ULL << FAKE_CAP_ATOMIC_WRITE;
    make_path(REMOTE_BASE, MR_SIZE, 0xff);
    assert_native(IBV_SEND_FENCE);

    fake_make_native();
    setenv("RPMA_FLUSH_METHOD", "emulated", 1);
    make_path(REMOTE_BASE, MR_SIZE, 0xff);
    assert_native(IBV_SEND_FENCE);

    setenv("RPMA_FLUSH_METHOD", "auto", 1);
    fake_device()->without_wr_flush = true;
    make_path(REMOTE_BASE, MR_SIZE, 0xff);
    assert_native(IBV_SEND_FENCE);
}

TEST(an_extended_queue_pair_alone_does_not_prove_support)
{
    fake_device()->extended_qps = true;
    make_path(REMOTE_BASE, MR_SIZE, 0xff);
    assert_emulated();
}

TEST(a_device_that_refuses_the_operation_on_its_queue_pairs_emulates)
{
    fake_make_native();
    fake_device()->extended_qps = true;
    fake_device()->send_ops_error = EOPNOTSUPP;
    make_path(REMOTE_BASE, MR_SIZE, 0xff);
    assert_emulated();

    fake_device()->send_ops_error = 0;
    fake_device()->without_wr_atomic_write = true;
    make_path(REMOTE_BASE, MR_SIZE, 0xff);
    assert_emulated();
}

TEST(ranges_outside_the_region_are_rejected)
{
    const uint64_t sizes[] = {7, 8, 12, 16, MR_SIZE};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); ++i) {
        make_path(REMOTE_BASE, sizes[i], 0xff);
        const uint64_t beyond = sizes[i] / 8 * 8;
        assert_int_equal(rpma_atomic_write(conn, remote, beyond, word, 3, NULL), RPMA_E_INVAL);
        assert_int_equal(rpma_atomic_write(conn, remote, SIZE_MAX - 7, word, 3, NULL), RPMA_E_INVAL);
        assert_calls("");
        if (beyond >= 8)
            assert_int_equal(rpma_atomic_write(conn, remote, beyond - 8, word, 3, NULL), 0);
    }
}

TEST(an_unaligned_base_is_warned_of_once_per_region)
{
    make_path(REMOTE_BASE + 7, MR_SIZE, 0xff);
    for (int i = 0; i < 3; ++i)
        assert_int_equal(rpma_atomic_write(conn, remote, 8, word, 3, NULL), 0);
    assert_int_equal(fake_last_work()->remote_addr, REMOTE_BASE + 15);
    assert_int_equal(log_count(RPMA_LOG_LEVEL_WARNING), 1);
    assert_int_equal(rpma_atomic_write(conn, remote, MR_SIZE, word, 3, NULL), RPMA_E_INVAL);
    assert_int_equal(rpma_atomic_write(conn, remote, MR_SIZE - 8, word, 3, NULL), 0);
}

TEST(a_refused_request_is_a_provider_error)
{
    for (int native = 0; native < 2; ++native) {
        if (native)
            fake_make_native();
        make_path(REMOTE_BASE, MR_SIZE, 0xff);
        fake_fail_call(1, ENOMEM, false);
        assert_provider(rpma_atomic_write(conn, remote, 0, word, 3, NULL), ENOMEM);
        assert_string_equal(fake_failed_call(), native ? "ibv_wr_complete" : "ibv_post_send");
        assert_int_equal(fake_work_count(), 0);
    }
}
