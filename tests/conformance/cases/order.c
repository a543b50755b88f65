// SPDX-License-Identifier: BSD-3-Clause
/* Order of operations and capacity of queues. */
#include "../driver/suite.h"
#include "../support/rdma.h"

#include <endian.h>

SUITE(order);

CASE(completions_have_the_order_of_posting)
{
    struct pair pair = connect_pair();
    char *contexts = pair.client.memory.ptr;
    struct rpma_mr_local *mr = pair.client.memory.mr;
    assert_done(rpma_write(pair.client.conn, pair.client.remote, 0, mr, 0, MEMORY_SIZE, ALWAYS, contexts));
    assert_done(rpma_read(pair.client.conn, mr, 0, pair.client.remote, 0, MEMORY_SIZE, ALWAYS, contexts + 1));
    assert_done(rpma_write(pair.client.conn, pair.client.remote, 0, mr, 0, 1, ALWAYS, contexts + 2));
    assert_done(rpma_atomic_write(pair.client.conn, pair.client.remote, 0, "8 bytes", ALWAYS, contexts + 3));
    assert_done(
            rpma_flush(pair.client.conn, pair.client.remote, 0, 8, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS, contexts + 4));
    assert_done(rpma_write(pair.client.conn, pair.client.remote, 0, mr, 0, 8, ALWAYS, contexts + 5));
    for (size_t i = 0; i < 6; ++i)
        assert_int_equal(expect_failure(pair.client.cq, IBV_WC_SUCCESS, contexts + i).wr_id, (uintptr_t)(contexts + i));
}

CASE(a_read_sees_the_writes_before_it)
{
    struct pair pair = connect_pair();
    struct region back = new_region(pair.peer, MEMORY_SIZE, RPMA_MR_USAGE_READ_DST);
    for (unsigned round = 1; round <= 50; ++round) {
        fill(pair.client.memory.ptr, MEMORY_SIZE, round);
        assert_done(rpma_write(
                pair.client.conn, pair.client.remote, 0, pair.client.memory.mr, 0, MEMORY_SIZE, ON_ERROR, NULL));
        assert_done(rpma_read(pair.client.conn, back.mr, 0, pair.client.remote, 0, MEMORY_SIZE, ALWAYS, &back));
        expect_success(pair.client.cq, IBV_WC_RDMA_READ, &back);
        assert_filled(back.ptr, MEMORY_SIZE, round);
    }
}

CASE(the_last_of_several_writes_wins)
{
    struct pair pair = connect_pair();
    for (unsigned round = 0; round < 50; ++round) {
        for (size_t i = 0; i < 8; ++i) {
            fill(pair.client.memory.ptr + i * 1024, 1024, round + (unsigned)i + 1);
            assert_done(rpma_write(pair.client.conn, pair.client.remote, 0, pair.client.memory.mr, i * 1024, 1024,
                    i == 7 ? ALWAYS : ON_ERROR, &pair));
        }
        expect_success(pair.client.cq, IBV_WC_RDMA_WRITE, &pair);
        assert_filled(pair.server.memory.ptr, 1024, round + 8);
    }
}

CASE(a_message_follows_the_writes_before_it)
{
    struct pair pair = connect_pair();
    for (unsigned round = 1; round <= 50; ++round) {
        fill(pair.client.memory.ptr, 32768, round);
        assert_done(rpma_recv(pair.server.conn, NULL, 0, 0, &pair));
        assert_done(
                rpma_write(pair.client.conn, pair.client.remote, 0, pair.client.memory.mr, 0, 32768, ON_ERROR, NULL));
        assert_done(rpma_send(pair.client.conn, NULL, 0, 0, ALWAYS, NULL));
        expect_success(pair.server.cq, IBV_WC_RECV, &pair);
        assert_filled(pair.server.memory.ptr, 32768, round);
        expect_success(pair.client.cq, IBV_WC_SEND, NULL);
    }
}

CASE(an_immediate_value_follows_its_write)
{
    struct pair pair = connect_pair();
    for (unsigned round = 1; round <= 50; ++round) {
        fill(pair.client.memory.ptr, 32768, round);
        assert_done(rpma_recv(pair.server.conn, NULL, 0, 0, &pair));
        assert_done(rpma_write_with_imm(
                pair.client.conn, pair.client.remote, 0, pair.client.memory.mr, 0, 32768, ALWAYS, round, NULL));
        struct ibv_wc wc = expect_success(pair.server.cq, IBV_WC_RECV_RDMA_WITH_IMM, &pair);
        assert_int_equal(be32toh(wc.imm_data), round);
        assert_filled(pair.server.memory.ptr, 32768, round);
        expect_success(pair.client.cq, IBV_WC_RDMA_WRITE, NULL);
    }
}

CASE(an_atomic_write_follows_the_flush_before_it)
{
    struct pair pair = connect_pair();
    for (uint64_t round = 1; round <= 200; ++round) {
        fill(pair.client.memory.ptr + 64, 4096, (unsigned)round);
        assert_done(
                rpma_write(pair.client.conn, pair.client.remote, 64, pair.client.memory.mr, 64, 4096, ON_ERROR, NULL));
        assert_done(
                rpma_flush(pair.client.conn, pair.client.remote, 64, 4096, RPMA_FLUSH_TYPE_VISIBILITY, ON_ERROR, NULL));
        assert_done(rpma_atomic_write(pair.client.conn, pair.client.remote, 0, (const char *)&round, ALWAYS, &pair));
        while (__atomic_load_n((uint64_t *)(void *)pair.server.memory.ptr, __ATOMIC_ACQUIRE) != round)
            ;
        assert_filled(pair.server.memory.ptr + 64, 4096, (unsigned)round);
        expect_atomically_written(pair.client.cq, &pair);
    }
}

CASE(words_written_atomically_are_never_torn)
{
    struct pair pair = connect_pair();
    for (int i = 1; i <= 1000; ++i) {
        char source[8];
        memset(source, i % 255, sizeof(source));
        assert_done(
                rpma_atomic_write(pair.client.conn, pair.client.remote, 8, source, i % 8 ? ON_ERROR : ALWAYS, &pair));
        for (int attempt = 0; attempt < 20; ++attempt) {
            uint64_t word = __atomic_load_n((uint64_t *)(void *)(pair.server.memory.ptr + 8), __ATOMIC_ACQUIRE);
            assert_true(word == (word & 0xff) * UINT64_C(0x0101010101010101));
        }
        if (i % 8 == 0)
            expect_atomically_written(pair.client.cq, &pair);
    }
}

CASE(every_tenth_operation_with_a_completion_is_enough)
{
    struct pair pair = connect_pair();
    for (int i = 1; i <= 500; ++i) {
        assert_done(rpma_write(pair.client.conn, pair.client.remote, 0, pair.client.memory.mr, 0, 64,
                i % 10 ? ON_ERROR : ALWAYS, &pair));
        if (i % 10 == 0)
            expect_success(pair.client.cq, IBV_WC_RDMA_WRITE, &pair);
    }
}

static struct pair pair_with_queues_of_8(void)
{
    struct rpma_conn_cfg *cfg = new_cfg();
    assert_done(rpma_conn_cfg_set_sq_size(cfg, 8));
    assert_done(rpma_conn_cfg_set_rq_size(cfg, 8));
    assert_done(rpma_conn_cfg_set_cq_size(cfg, 4096));
    return connect_pair_with(new_peer(), cfg, NULL);
}

/* Entries become free only when completions are polled, so the queue fills even on a fast device. */
static int fill_send_queue(struct pair *pair, int *result)
{
    int posted = 0;
    while (posted < 4096 && (*result = rpma_write(pair->client.conn, NULL, 0, NULL, 0, 0, ALWAYS, pair)) == 0)
        ++posted;
    return posted;
}

CASE(a_full_send_queue_refuses_an_operation_loses_nothing_and_works_again)
{
    struct pair pair = pair_with_queues_of_8();
    int result = 0;
    int posted = fill_send_queue(&pair, &result);
    assert_true(posted >= 8);
    assert_rpma(result, RPMA_E_PROVIDER);
    for (; posted > 0; --posted)
        expect_success(pair.client.cq, IBV_WC_RDMA_WRITE, &pair);
    assert_done(rpma_write(pair.client.conn, NULL, 0, NULL, 0, 0, ALWAYS, &result));
    expect_success(pair.client.cq, IBV_WC_RDMA_WRITE, &result);
}

CASE(a_full_receive_queue_refuses_the_next_receive)
{
    struct pair pair = pair_with_queues_of_8();
    char *contexts = pair.client.memory.ptr;
    int posted = 0;
    int result = 0;
    while (posted < 4096 && (result = rpma_recv(pair.client.conn, NULL, 0, 0, contexts + posted)) == 0)
        ++posted;
    assert_true(posted >= 8);
    assert_rpma(result, RPMA_E_PROVIDER);
    for (int i = 0; i < posted; ++i) {
        assert_done(rpma_send(pair.server.conn, NULL, 0, 0, ALWAYS, &pair));
        expect_success(pair.server.cq, IBV_WC_SEND, &pair);
        expect_success(pair.client.cq, IBV_WC_RECV, contexts + i);
    }
}
