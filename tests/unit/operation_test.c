// SPDX-License-Identifier: BSD-3-Clause
#include "support.h"

#include <arpa/inet.h>
#include <sys/mman.h>

enum {
    LOCAL_OFFSET = 24,
    REMOTE_OFFSET = 40,
    LENGTH = 100
};

#define IMM 0x87654321

// All operations that move data, with one signature.
typedef int transfer(struct rpma_conn *to, struct rpma_mr_local *near, size_t offset, struct rpma_mr_remote *far,
        size_t far_offset, size_t len, int flags, const void *op_context);

#define TRANSFER(name, ...)                                                                                            \
    static int name(struct rpma_conn *to, struct rpma_mr_local *near, size_t offset, struct rpma_mr_remote *far,       \
            size_t far_offset, size_t len, int flags, const void *op_context)                                          \
    {                                                                                                                  \
        return __VA_ARGS__;                                                                                            \
    }

TRANSFER(do_read, rpma_read(to, near, offset, far, far_offset, len, flags, op_context))
TRANSFER(do_write, rpma_write(to, far, far_offset, near, offset, len, flags, op_context))
TRANSFER(do_write_with_imm, rpma_write_with_imm(to, far, far_offset, near, offset, len, flags, IMM, op_context))
TRANSFER(do_send, rpma_send(to, near, offset, len, flags, op_context))
TRANSFER(do_send_with_imm, rpma_send_with_imm(to, near, offset, len, flags, IMM, op_context))
TRANSFER(do_recv, rpma_recv(to, near, offset, len, op_context))
TRANSFER(do_srq_recv, rpma_srq_recv(srq, near, offset, len, op_context))

static const struct row {
    transfer *call;
    enum fake_work_kind kind;
    enum ibv_wr_opcode opcode;
    bool one_sided;
    bool imm;
} rows[] = {
        {do_read, FAKE_WORK_SEND, IBV_WR_RDMA_READ, true, false},
        {do_write, FAKE_WORK_SEND, IBV_WR_RDMA_WRITE, true, false},
        {do_write_with_imm, FAKE_WORK_SEND, IBV_WR_RDMA_WRITE_WITH_IMM, true, true},
        {do_send, FAKE_WORK_SEND, IBV_WR_SEND, false, false},
        {do_send_with_imm, FAKE_WORK_SEND, IBV_WR_SEND_WITH_IMM, false, true},
        {do_recv, FAKE_WORK_RECV, 0, false, false},
        {do_srq_recv, FAKE_WORK_SRQ_RECV, 0, false, false},
};

static int begin(void **state)
{
    begin_path_test(state);
    assert_int_equal(rpma_srq_new(peer, NULL, &srq), 0);
    fake_forget_calls();
    return 0;
}

#define OPERATION_TEST(name) DEFINE_TEST(name, begin, end_test)
#define FOR_EACH_ROW(row) for (const struct row *row = rows; row != rows + sizeof(rows) / sizeof(rows[0]); ++row)

static void assert_work(const struct row *row, unsigned flags)
{
    const struct fake_work *const work = fake_last_work();
    assert_int_equal(work->kind, row->kind);
    assert_ptr_equal(work->queue, row->kind == FAKE_WORK_SRQ_RECV ? fake_live(FAKE_SRQ, 0) : newest_qp());
    assert_false(work->has_next);
    assert_true(work->has_bad_wr);
    if (row->kind == FAKE_WORK_SEND) {
        assert_int_equal(work->opcode, row->opcode);
        assert_int_equal(work->flags, flags);
    }
    if (row->imm)
        assert_int_equal(work->imm_data, htonl(IMM));
}

OPERATION_TEST(each_operation_posts_one_request)
{
    const struct ibv_mr *const face = fake_live(FAKE_MR, fake_count(FAKE_MR) - 1);
    FOR_EACH_ROW(row)
    {
        const unsigned posted = fake_work_count();
        assert_done(row->call(conn, mr, LOCAL_OFFSET, remote, REMOTE_OFFSET, LENGTH, ODD_FLAGS, CONTEXT));
        assert_int_equal(fake_work_count(), posted + 1);
        assert_work(row, IBV_SEND_SIGNALED);
        const struct fake_work *const work = fake_last_work();
        assert_int_equal(work->wr_id, (uintptr_t)CONTEXT);
        assert_int_equal(work->num_sge, 1);
        assert_int_equal(work->sge.addr, (uintptr_t)test_memory + LOCAL_OFFSET);
        assert_int_equal(work->sge.length, LENGTH);
        assert_int_equal(work->sge.lkey, face->lkey);
        if (row->one_sided) {
            assert_int_equal(work->remote_addr, REMOTE_BASE + REMOTE_OFFSET);
            assert_int_equal(work->rkey, RKEY);
        }
    }
    assert_calls("ibv_post_send ibv_post_send ibv_post_send ibv_post_send ibv_post_send ibv_post_recv "
                 "ibv_post_srq_recv");
}

OPERATION_TEST(without_regions_each_operation_moves_no_bytes)
{
    FOR_EACH_ROW(row)
    {
        assert_int_equal(row->call(conn, NULL, 0, NULL, 0, 0, ODD_FLAGS, NULL), 0);
        assert_work(row, IBV_SEND_SIGNALED);
        const struct fake_work *const work = fake_last_work();
        assert_int_equal(work->wr_id, 0);
        assert_int_equal(work->num_sge, 0);
        assert_int_equal(work->remote_addr, 0);
        assert_int_equal(work->rkey, 0);
    }
}

OPERATION_TEST(no_bytes_of_a_region_are_an_element_without_length)
{
    FOR_EACH_ROW(row)
    {
        assert_int_equal(row->call(conn, mr, MR_SIZE, remote, MR_SIZE, 0, ODD_FLAGS, NULL), 0);
        assert_int_equal(fake_last_work()->num_sge, 1);
        assert_int_equal(fake_last_work()->sge.length, 0);
        assert_int_equal(fake_last_work()->sge.addr, (uintptr_t)test_memory + MR_SIZE);
    }
}

OPERATION_TEST(only_the_always_flag_signals)
{
    const struct {
        int flags;
        unsigned expected;
    } cases[] = {{RPMA_F_COMPLETION_ON_ERROR, 0}, {RPMA_F_COMPLETION_ALWAYS, IBV_SEND_SIGNALED}, {2, IBV_SEND_SIGNALED},
            {8, 0}, {0xC416, IBV_SEND_SIGNALED}, {0xFFFF, IBV_SEND_SIGNALED}, {-1 & ~RPMA_F_MORE, IBV_SEND_SIGNALED}};
    FOR_EACH_ROW(row)
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i) {
        assert_int_equal(row->call(conn, mr, 0, remote, 0, 8, cases[i].flags, NULL), 0);
        assert_work(row, cases[i].expected);
        assert_int_equal(row->call(conn, NULL, 0, NULL, 0, 0, cases[i].flags, NULL), 0);
        assert_work(row, cases[i].expected);
    }
}

OPERATION_TEST(ranges_outside_a_region_are_rejected_before_posting)
{
    const struct {
        size_t local_offset;
        size_t remote_offset;
        size_t len;
        bool remote_only;
    } cases[] = {
            {0, 0, MR_SIZE + 1, false},
            {1, 0, MR_SIZE, false},
            {MR_SIZE, 0, 1, false},
            {MR_SIZE + 1, 0, 0, false},
            {SIZE_MAX, 0, 0, false},
            {SIZE_MAX - 7, 0, 8, false},
            {SIZE_MAX, 0, MR_SIZE, false},
            {8, 0, SIZE_MAX - 7, false},
            {0, 0, SIZE_MAX, false},
            {0, 0, 0x100000008, false},
            {0, 1, MR_SIZE, true},
            {0, MR_SIZE, 1, true},
            {0, MR_SIZE + 1, 0, true},
            {0, SIZE_MAX - 7, 8, true},
    };
    FOR_EACH_ROW(row)
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); ++i)
        if (row->one_sided || !cases[i].remote_only)
            assert_int_equal(row->call(conn, mr, cases[i].local_offset, remote, cases[i].remote_offset, cases[i].len,
                                     ODD_FLAGS, NULL),
                    RPMA_E_INVAL);
    assert_calls("");
    FOR_EACH_ROW(row)
    {
        assert_int_equal(row->call(conn, mr, 0, remote, 0, MR_SIZE, ODD_FLAGS, NULL), 0);
        assert_int_equal(row->call(conn, mr, MR_SIZE - 1, remote, MR_SIZE - 1, 1, ODD_FLAGS, NULL), 0);
    }
}

// Regions of 8 GiB: no data is transferred, so they need no memory.
static void assert_max_length(uint32_t longest)
{
    const size_t size = 0x200000000;
    make_path(REMOTE_BASE, size, 0xff);
    assert_int_equal(rpma_srq_new(peer, NULL, &srq), 0);
    struct rpma_mr_local *huge = NULL;
    assert_int_equal(rpma_mr_reg(peer, test_memory, size, 0xff, &huge), 0);
    FOR_EACH_ROW(row)
    {
        assert_int_equal(row->call(conn, huge, 8, remote, 8, longest, ODD_FLAGS, NULL), 0);
        assert_int_equal(fake_last_work()->sge.length, longest);
        const unsigned posted = fake_work_count();
        assert_int_equal(row->call(conn, huge, 8, remote, 8, (size_t)longest + 1, ODD_FLAGS, NULL), RPMA_E_INVAL);
        assert_int_equal(row->call(conn, huge, 8, remote, 8, 0x100000008, ODD_FLAGS, NULL), RPMA_E_INVAL);
        assert_int_equal(fake_work_count(), posted);
    }
    drop_mr(huge);
}

OPERATION_TEST(a_message_is_at_most_2_gib_long)
{
    assert_max_length(0x80000000);
}

OPERATION_TEST(a_message_is_at_most_as_long_as_the_smallest_port_allows)
{
    fake_device()->ports = 4;
    fake_device()->max_msg_sz[0] = UINT32_MAX;
    fake_device()->max_msg_sz[1] = 1U << 20;
    fake_device()->max_msg_sz[2] = 0;
    fake_device()->max_msg_sz[3] = 1U << 30;
    assert_max_length(1U << 20);
}

OPERATION_TEST(a_device_that_claims_more_than_the_transport_is_not_believed)
{
    fake_device()->max_msg_sz[0] = UINT32_MAX;
    assert_max_length(0x80000000);
}

// Returns the page for the next object. Its address has one bit that no other such page has.
static void *place_next(unsigned bit)
{
    void *const wanted = (void *)(1UL << bit);
    void *const page = mmap(wanted, MR_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page != wanted) {
        print_message("no object can be placed at %p\n", wanted);
        skip();
    }
    fake_libc_place_next(page);
    return page;
}

OPERATION_TEST(objects_whose_addresses_have_no_common_bit_are_all_there)
{
    static const char word[8];
    void *pages[3];
    pages[0] = place_next(28);
    struct rpma_mr_local *near = make_mr(peer);
    pages[1] = place_next(29);
    struct rpma_mr_remote *far = make_remote(REMOTE_BASE, MR_SIZE, 0xff);
    req = make_req(peer, NULL);
    struct rpma_conn *apart = NULL;
    pages[2] = place_next(30);
    assert_int_equal(rpma_conn_req_connect(&req, NULL, &apart), 0);
    assert_ptr_equal(near, pages[0]);
    assert_ptr_equal(far, pages[1]);
    assert_ptr_equal(apart, pages[2]);

    FOR_EACH_ROW(row)
    {
        assert_int_equal(row->call(apart, near, LOCAL_OFFSET, far, REMOTE_OFFSET, LENGTH, ODD_FLAGS, CONTEXT), 0);
        assert_work(row, IBV_SEND_SIGNALED);
        assert_int_equal(fake_last_work()->sge.addr, (uintptr_t)test_memory + LOCAL_OFFSET);
        assert_int_equal(row->call(apart, near, 1, far, 0, MR_SIZE, ODD_FLAGS, CONTEXT), RPMA_E_INVAL);
    }
    assert_int_equal(rpma_flush(apart, far, 16, 8, RPMA_FLUSH_TYPE_VISIBILITY, 3, CONTEXT), 0);
    assert_int_equal(fake_last_work()->remote_addr, REMOTE_BASE + 16);
    assert_int_equal(rpma_atomic_write(apart, far, 24, word, 3, CONTEXT), 0);
    assert_int_equal(fake_last_work()->remote_addr, REMOTE_BASE + 24);

    drop_conn(apart);
    drop_remote(far);
    drop_mr(near);
    for (int i = 0; i < 3; ++i)
        munmap(pages[i], MR_SIZE);
}

OPERATION_TEST(a_refused_request_is_a_provider_error)
{
    FOR_EACH_ROW(row)
    {
        const unsigned logged = log_count(RPMA_LOG_LEVEL_ERROR);
        fake_fail_call(1, ENOMEM, false);
        assert_provider(row->call(conn, mr, 0, remote, 0, 8, ODD_FLAGS, NULL), ENOMEM);
        fake_fail_call(1, EINVAL, false);
        assert_provider(row->call(conn, NULL, 0, NULL, 0, 0, ODD_FLAGS, NULL), EINVAL);
        assert_int_equal(log_count(RPMA_LOG_LEVEL_ERROR), logged + 2);
    }
}
