// SPDX-License-Identifier: BSD-3-Clause
#include "support.h"

enum {
    BOTH = RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY | RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT
};

static int flush(size_t offset, size_t len, enum rpma_flush_type type)
{
    return rpma_flush(conn, remote, offset, len, type, RPMA_F_COMPLETION_ALWAYS, CONTEXT);
}

static const enum rpma_flush_type types[] = {RPMA_FLUSH_TYPE_PERSISTENT, RPMA_FLUSH_TYPE_VISIBILITY};

// Returns whether the latest flush was emulated, as the connection reports. Checks the common properties of both
// methods.
static bool was_emulated(void)
{
    bool native = false;
    assert_int_equal(rpma_conn_get_native_flush(conn, &native), 0);
    assert_int_equal(native, fake_last_work()->kind == FAKE_WORK_FLUSH);
    const struct fake_work *const work = fake_last_work();
    assert_ptr_equal(work->queue, newest_qp());
    assert_int_equal(work->wr_id, (uintptr_t)CONTEXT);
    assert_int_equal(work->rkey, RKEY);
    assert_int_equal(work->kind == FAKE_WORK_SEND || work->kind == FAKE_WORK_FLUSH, 1);
    return work->kind == FAKE_WORK_SEND;
}

TEST(emulation_reads_8_bytes_into_the_buffer_of_the_connection)
{
    make_path(REMOTE_BASE, MR_SIZE, BOTH);
    const struct ibv_mr *const buffer = fake_live(FAKE_MR, 0);
    const size_t lengths[] = {0, 1, 8, MR_SIZE - 64};
    for (int t = 0; t < 2; ++t)
        for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); ++i) {
            fake_forget_calls();
            assert_done(flush(64, lengths[i], types[t]));
            assert_calls("ibv_post_send");
            assert_true(was_emulated());
            const struct fake_work *const work = fake_last_work();
            assert_int_equal(work->opcode, IBV_WR_RDMA_READ);
            assert_int_equal(work->flags, IBV_SEND_SIGNALED);
            assert_int_equal(work->remote_addr, REMOTE_BASE + 64);
            assert_int_equal(work->num_sge, 1);
            assert_int_equal(work->sge.addr, (uintptr_t)buffer->addr);
            assert_int_equal(work->sge.length, 8);
            assert_int_equal(work->sge.lkey, buffer->lkey);
            assert_false(work->has_next);
            assert_true(work->has_bad_wr);
        }
}

TEST(emulation_never_reads_past_the_end_of_the_region)
{
    for (size_t size = 1; size <= 24; ++size) {
        make_path(REMOTE_BASE, size, BOTH);
        for (size_t offset = 0; offset <= size; ++offset) {
            assert_int_equal(flush(offset, size - offset, RPMA_FLUSH_TYPE_PERSISTENT), 0);
            const struct fake_work *const work = fake_last_work();
            const size_t last = size < 8 ? 0 : size - 8;
            assert_int_equal(work->sge.length, size < 8 ? size : 8);
            assert_int_equal(work->remote_addr, REMOTE_BASE + (offset < last ? offset : last));
        }
    }
}

TEST(native_flush_covers_the_range)
{
    fake_make_native();
    make_path(REMOTE_BASE, MR_SIZE, BOTH);
    for (int t = 0; t < 2; ++t) {
        fake_forget_calls();
        assert_done(flush(4090, 6, types[t]));
        assert_calls("ibv_wr_start ibv_wr_complete");
        assert_false(was_emulated());
        const struct fake_work *const work = fake_last_work();
        assert_int_equal(work->flags, IBV_SEND_SIGNALED);
        assert_int_equal(work->remote_addr, REMOTE_BASE + 4090);
        assert_int_equal(work->flush_length, 6);
        assert_int_equal(work->flush_placement, types[t] == RPMA_FLUSH_TYPE_PERSISTENT ? 2 : 1);
        assert_int_equal(work->flush_level, 0);
    }
}

TEST(regions_without_persistence_are_flushed_natively_to_visibility)
{
    fake_make_native();
    const int local = RPMA_MR_USAGE_READ_DST | RPMA_MR_USAGE_WRITE_SRC | RPMA_MR_USAGE_SEND | RPMA_MR_USAGE_RECV;
    const struct {
        int usage;
        unsigned placement;
    } rows[] = {{BOTH | local, 1}, {BOTH | local | RPMA_MR_USAGE_READ_SRC, 1}, {BOTH, 2}, {0xff, 2},
            {BOTH | (local & ~RPMA_MR_USAGE_SEND), 2}, {BOTH | (local & ~RPMA_MR_USAGE_READ_DST), 2}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i) {
        make_path(REMOTE_BASE, MR_SIZE, rows[i].usage);
        assert_int_equal(flush(0, 8, RPMA_FLUSH_TYPE_PERSISTENT), 0);
        assert_false(was_emulated());
        assert_int_equal(fake_last_work()->flush_placement, rows[i].placement);
        assert_int_equal(flush(0, 8, RPMA_FLUSH_TYPE_VISIBILITY), 0);
        assert_int_equal(fake_last_work()->flush_placement, 1);
    }
}

TEST(native_flush_beyond_32_bits_covers_the_region)
{
    fake_make_native();
    make_path(REMOTE_BASE, 0x200000000, BOTH);
    assert_int_equal(flush(0, 0xffffffff, RPMA_FLUSH_TYPE_PERSISTENT), 0);
    assert_int_equal(fake_last_work()->flush_level, 0);
    assert_int_equal(fake_last_work()->flush_length, 0xffffffff);
    assert_int_equal(flush(0, 0x100000000, RPMA_FLUSH_TYPE_PERSISTENT), 0);
    assert_int_equal(fake_last_work()->flush_level, 1);
    assert_int_equal(fake_last_work()->flush_placement, 2);
}

TEST(only_the_always_flag_signals)
{
    for (int native = 0; native < 2; ++native) {
        if (native)
            fake_make_native();
        make_path(REMOTE_BASE, MR_SIZE, BOTH);
        for (int flags = 1; flags <= 8; ++flags) {
            if ((flags & RPMA_F_MORE) != 0)
                continue;
            assert_int_equal(rpma_flush(conn, remote, 0, 8, RPMA_FLUSH_TYPE_VISIBILITY, flags, CONTEXT), 0);
            assert_int_equal(was_emulated(), !native);
            assert_int_equal(fake_last_work()->flags, flags & IBV_SEND_SIGNALED);
        }
    }
}

TEST(native_flush_needs_capability_and_grant)
{
    // Every queue pair has the extended view; that alone proves nothing.
    fake_device()->extended_qps = true;
    const uint64_t atomic_write_only = 1ULL << FAKE_CAP_ATOMIC_WRITE;
    const uint64_t capabilities[] = {0, atomic_write_only, atomic_write_only | 1ULL << FAKE_CAP_FLUSH_GLOBAL,
            atomic_write_only | 1ULL << FAKE_CAP_FLUSH_PERSISTENT};
    for (size_t i = 0; i < sizeof(capabilities) / sizeof(capabilities[0]); ++i) {
        fake_device()->capabilities = capabilities[i];
        make_path(REMOTE_BASE, MR_SIZE, BOTH);
        assert_int_equal(flush(0, 8, RPMA_FLUSH_TYPE_PERSISTENT), 0);
        assert_true(was_emulated());
    }

    fake_make_native();
    for (int refused = 0; refused < 2; ++refused) {
        fake_device()->send_ops_error = refused ? ENOTSUP : 0;
        fake_device()->without_wr_flush = !refused;
        make_path(REMOTE_BASE, MR_SIZE, BOTH);
        assert_int_equal(flush(0, 8, RPMA_FLUSH_TYPE_PERSISTENT), 0);
        assert_true(was_emulated());
    }
}

TEST(ranges_outside_the_region_are_rejected)
{
    for (int native = 0; native < 2; ++native) {
        if (native)
            fake_make_native();
        make_path(REMOTE_BASE, MR_SIZE, BOTH);
        const struct {
            size_t offset;
            size_t len;
        } rows[] = {{0, MR_SIZE + 1}, {1, MR_SIZE}, {MR_SIZE, 1}, {MR_SIZE + 1, 0}, {SIZE_MAX, 1}, {SIZE_MAX - 7, 8},
                {8, SIZE_MAX - 7}, {0, SIZE_MAX}};
        for (int t = 0; t < 2; ++t)
            for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i)
                assert_int_equal(flush(rows[i].offset, rows[i].len, types[t]), RPMA_E_INVAL);
        assert_calls("");
    }
}

TEST(a_refused_request_is_a_provider_error)
{
    for (int native = 0; native < 2; ++native) {
        if (native)
            fake_make_native();
        make_path(REMOTE_BASE, MR_SIZE, BOTH);
        const unsigned posted = fake_work_count();
        fake_fail_call(1, ENOMEM, false);
        assert_provider(flush(0, 8, RPMA_FLUSH_TYPE_PERSISTENT), ENOMEM);
        assert_int_equal(fake_work_count(), posted);
        assert_int_equal(flush(0, 8, RPMA_FLUSH_TYPE_PERSISTENT), 0);
    }
}
