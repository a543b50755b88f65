// SPDX-License-Identifier: BSD-3-Clause
/* Successful reads, writes and atomic writes. */
#include "../driver/suite.h"
#include "../support/rdma.h"

SUITE(operation);

static const void *const context = "any address";

#define SIZES(ROW) ROW(1) ROW(7) ROW(8) ROW(64) ROW(4095) ROW(4096) ROW(65536)

/* Writes bytes from an odd address to another one and checks that adjacent bytes are unchanged. */
static void writes(size_t length)
{
    struct pair pair = connect_pair();
    size_t from = length < MEMORY_SIZE - 3 ? 3 : 0, to = length < MEMORY_SIZE - 5 ? 5 : 0;
    fill(pair.client.memory.ptr + from, length, 1);
    assert_done(
            rpma_write(pair.client.conn, pair.client.remote, to, pair.client.memory.mr, from, length, ALWAYS, context));
    expect_success(pair.client.cq, IBV_WC_RDMA_WRITE, context);
    assert_filled(pair.server.memory.ptr, to, 0);
    assert_filled(pair.server.memory.ptr + to, length, 1);
    assert_filled(pair.server.memory.ptr + to + length, MEMORY_SIZE - to - length, 0);
}

static void reads(size_t length)
{
    struct pair pair = connect_pair();
    size_t from = length < MEMORY_SIZE - 3 ? 3 : 0, to = length < MEMORY_SIZE - 5 ? 5 : 0;
    fill(pair.server.memory.ptr + from, length, 1);
    assert_done(
            rpma_read(pair.client.conn, pair.client.memory.mr, to, pair.client.remote, from, length, ALWAYS, context));
    struct ibv_wc wc = expect_success(pair.client.cq, IBV_WC_RDMA_READ, context);
    assert_int_equal(wc.byte_len, length);
    assert_filled(pair.client.memory.ptr, to, 0);
    assert_filled(pair.client.memory.ptr + to, length, 1);
    assert_filled(pair.client.memory.ptr + to + length, MEMORY_SIZE - to - length, 0);
}

static void writes_with_immediate(size_t length)
{
    struct pair pair = connect_pair();
    assert_done(rpma_recv(pair.server.conn, NULL, 0, 0, &pair));
    fill(pair.client.memory.ptr, length, 1);
    assert_done(rpma_write_with_imm(
            pair.client.conn, pair.client.remote, 0, pair.client.memory.mr, 0, length, ALWAYS, 0x87654321, context));
    expect_success(pair.client.cq, IBV_WC_RDMA_WRITE, context);
    struct ibv_wc wc = expect_success(pair.server.cq, IBV_WC_RECV_RDMA_WITH_IMM, &pair);
    assert_true(wc.wc_flags & IBV_WC_WITH_IMM);
    assert_memory_equal(&wc.imm_data, "\x87\x65\x43\x21", 4);
    assert_int_equal(wc.byte_len, length);
    assert_filled(pair.server.memory.ptr, length, 1);
}

#define SIZE_CASES(length)                                                                                             \
    CALL_CASE(a_write_of_##length##_bytes_arrives, writes(length));                                                    \
    CALL_CASE(a_read_of_##length##_bytes_arrives, reads(length));                                                      \
    CALL_CASE(a_write_with_immediate_of_##length##_bytes_arrives, writes_with_immediate(length));
SIZES(SIZE_CASES)

CASE(a_write_of_8_mib_arrives)
{
    const size_t size = 8 << 20;
    struct pair pair = connect_pair();
    struct region source = new_region(pair.peer, size, RPMA_MR_USAGE_WRITE_SRC);
    struct region target = new_region(pair.peer, size, RPMA_MR_USAGE_WRITE_DST);
    fill(source.ptr, size, 1);
    assert_done(rpma_write(pair.client.conn, remote_of(target), 0, source.mr, 0, size, ALWAYS, context));
    expect_success(pair.client.cq, IBV_WC_RDMA_WRITE, context);
    assert_filled(target.ptr, size, 1);
}

CASE(a_read_of_8_mib_arrives)
{
    const size_t size = 8 << 20;
    struct pair pair = connect_pair();
    struct region source = new_region(pair.peer, size, RPMA_MR_USAGE_READ_SRC);
    struct region target = new_region(pair.peer, size, RPMA_MR_USAGE_READ_DST);
    fill(source.ptr, size, 1);
    assert_done(rpma_read(pair.client.conn, target.mr, 0, remote_of(source), 0, size, ALWAYS, context));
    expect_success(pair.client.cq, IBV_WC_RDMA_READ, context);
    assert_filled(target.ptr, size, 1);
}

CASE(an_empty_read_needs_no_regions)
{
    struct pair pair = connect_pair();
    assert_done(rpma_read(pair.client.conn, NULL, 0, NULL, 0, 0, ALWAYS, context));
    expect_success(pair.client.cq, IBV_WC_RDMA_READ, context);
}

CASE(an_empty_write_with_immediate_needs_no_regions)
{
    struct pair pair = connect_pair();
    assert_done(rpma_recv(pair.server.conn, NULL, 0, 0, &pair));
    assert_done(rpma_write_with_imm(pair.client.conn, NULL, 0, NULL, 0, 0, ALWAYS, 1, context));
    expect_success(pair.client.cq, IBV_WC_RDMA_WRITE, context);
    assert_int_equal(expect_success(pair.server.cq, IBV_WC_RECV_RDMA_WITH_IMM, &pair).byte_len, 0);
}

CASE(operations_of_0_bytes_within_regions_succeed)
{
    struct pair pair = connect_pair();
    assert_done(rpma_write(pair.client.conn, pair.client.remote, 0, pair.client.memory.mr, 0, 0, ALWAYS, context));
    expect_success(pair.client.cq, IBV_WC_RDMA_WRITE, context);
    assert_done(rpma_read(pair.client.conn, pair.client.memory.mr, 1, pair.client.remote, 1, 0, ALWAYS, context));
    expect_success(pair.client.cq, IBV_WC_RDMA_READ, context);
}

CASE(the_last_byte_of_a_region_can_be_written)
{
    struct pair pair = connect_pair();
    pair.client.memory.ptr[MEMORY_SIZE - 1] = 'x';
    assert_done(rpma_write(pair.client.conn, pair.client.remote, MEMORY_SIZE - 1, pair.client.memory.mr,
            MEMORY_SIZE - 1, 1, ALWAYS, context));
    expect_success(pair.client.cq, IBV_WC_RDMA_WRITE, context);
    assert_int_equal(pair.server.memory.ptr[MEMORY_SIZE - 1], 'x');
}

CASE(an_atomic_write_moves_8_bytes)
{
    struct pair pair = connect_pair();
    char source[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    assert_done(rpma_atomic_write(pair.client.conn, pair.client.remote, 16, source, ALWAYS, context));
    memset(source, 0xee, sizeof(source));
    expect_atomically_written(pair.client.cq, context);
    assert_filled(pair.server.memory.ptr, 16, 0);
    assert_memory_equal(pair.server.memory.ptr + 16, "\1\2\3\4\5\6\7\10", 8);
    assert_filled(pair.server.memory.ptr + 24, 64, 0);
}

CASE(the_source_of_an_atomic_write_need_not_be_aligned)
{
    struct pair pair = connect_pair();
    static const char bytes[] = "xabcdefgh";
    assert_done(rpma_atomic_write(pair.client.conn, pair.client.remote, 0, bytes + 1, ALWAYS, context));
    expect_atomically_written(pair.client.cq, context);
    assert_memory_equal(pair.server.memory.ptr, "abcdefgh", 8);
}

CASE(the_last_word_of_a_region_can_be_written_atomically)
{
    struct pair pair = connect_pair();
    assert_done(rpma_atomic_write(pair.client.conn, pair.client.remote, MEMORY_SIZE - 8, "abcdefgh", ALWAYS, context));
    expect_atomically_written(pair.client.cq, context);
    assert_memory_equal(pair.server.memory.ptr + MEMORY_SIZE - 8, "abcdefgh", 8);
}

CASE(the_context_keeps_all_its_bits)
{
    struct pair pair = connect_pair();
    const void *all = (const void *)UINTPTR_MAX;
    assert_done(rpma_write(pair.client.conn, pair.client.remote, 0, pair.client.memory.mr, 0, 8, ALWAYS, all));
    expect_success(pair.client.cq, IBV_WC_RDMA_WRITE, all);
}

static void assert_only_the_last_completes(struct pair *pair)
{
    struct ibv_wc wc;
    assert_done(rpma_write(pair->client.conn, NULL, 0, NULL, 0, 0, ALWAYS, context));
    expect_success(pair->client.cq, IBV_WC_RDMA_WRITE, context);
    assert_rpma(rpma_cq_get_wc(pair->client.cq, 1, &wc, NULL), RPMA_E_NO_COMPLETION);
}

/* name, call that posts an unsignaled operation */
#define UNSIGNALLED(ROW)                                                                                               \
    ROW(write, rpma_write(conn, remote, 0, mr, 0, 8, ON_ERROR, NULL))                                                  \
    ROW(read, rpma_read(conn, mr, 0, remote, 0, 8, ON_ERROR, NULL))                                                    \
    ROW(atomic_write, rpma_atomic_write(conn, remote, 0, "8 bytes", ON_ERROR, NULL))                                   \
    ROW(flush, rpma_flush(conn, remote, 0, 8, RPMA_FLUSH_TYPE_VISIBILITY, ON_ERROR, NULL))

#define UNSIGNALLED_CASE(name, call)                                                                                   \
    CASE(a_successful_##name##_completes_only_if_requested)                                                            \
    {                                                                                                                  \
        struct pair pair = connect_pair();                                                                             \
        struct rpma_conn *conn = pair.client.conn;                                                                     \
        struct rpma_mr_remote *remote = pair.client.remote;                                                            \
        struct rpma_mr_local *mr = pair.client.memory.mr;                                                              \
        (void)mr;                                                                                                      \
        assert_done(call);                                                                                             \
        assert_only_the_last_completes(&pair);                                                                         \
    }
UNSIGNALLED(UNSIGNALLED_CASE)
