// SPDX-License-Identifier: BSD-3-Clause
/*
 * Operations with RPMA_F_MORE. A library before 1.4 posts them immediately, with the same effect. Such a library lacks
 * rpma_conn_submit(), so it is resolved at run time.
 */
#include "../driver/suite.h"
#include "../support/rdma.h"

SUITE(batch);

#define MORE (ON_ERROR | RPMA_F_MORE)

static int ring(struct rpma_conn *conn)
{
    int (*function)(struct rpma_conn * conn);
    *(void **)&function = since_1_4("rpma_conn_submit");
    return function(conn);
}

CASE(writes_and_a_flush_posted_together_arrive_in_order)
{
    struct pair pair = connect_pair();
    fill(pair.client.memory.ptr, 4 * 1000, 1);
    for (size_t i = 0; i < 4; ++i)
        assert_done(rpma_write(
                pair.client.conn, pair.client.remote, 1000 * i, pair.client.memory.mr, 1000 * i, 1000, MORE, NULL));
    assert_done(rpma_flush(pair.client.conn, pair.client.remote, 0, 4000, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS, &pair));
    expect_flushed(pair.client.cq, &pair);
    assert_filled(pair.server.memory.ptr, 4000, 1);
}

CASE(each_signaled_queued_operation_completes)
{
    struct pair pair = connect_pair();
    struct rpma_conn *conn = pair.client.conn;
    assert_done(rpma_recv(pair.server.conn, pair.server.memory.mr, 0, 64, &pair));
    fill(pair.client.memory.ptr, 64, 2);
    assert_done(rpma_write(conn, pair.client.remote, 128, pair.client.memory.mr, 0, 64, ALWAYS | RPMA_F_MORE, &conn));
    assert_done(rpma_read(conn, pair.client.memory.mr, 256, pair.client.remote, 128, 64, ALWAYS | RPMA_F_MORE, &pair));
    assert_done(rpma_send(conn, pair.client.memory.mr, 0, 64, ALWAYS, NULL));
    expect_success(pair.client.cq, IBV_WC_RDMA_WRITE, &conn);
    expect_success(pair.client.cq, IBV_WC_RDMA_READ, &pair);
    expect_success(pair.client.cq, IBV_WC_SEND, NULL);
    expect_success(pair.server.cq, IBV_WC_RECV, &pair);
    assert_filled(pair.client.memory.ptr + 256, 64, 2);
    assert_filled(pair.server.memory.ptr, 64, 2);
}

CASE(a_queued_atomic_write_has_copied_its_bytes)
{
    struct pair pair = connect_pair();
    char word[8] = "7 bytes";
    assert_done(rpma_atomic_write(pair.client.conn, pair.client.remote, 8, word, MORE, NULL));
    memset(word, 0, sizeof(word));
    assert_done(rpma_flush(pair.client.conn, pair.client.remote, 8, 8, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS, &pair));
    expect_flushed(pair.client.cq, &pair);
    assert_memory_equal(pair.server.memory.ptr + 8, "7 bytes", 8);
}

CASE(submit_posts_queued_operations)
{
    struct pair pair = connect_pair();
    assert_done(ring(pair.client.conn));
    fill(pair.client.memory.ptr, 64, 3);
    assert_done(rpma_write(pair.client.conn, pair.client.remote, 0, pair.client.memory.mr, 0, 64, MORE, NULL));
    assert_done(rpma_write(pair.client.conn, NULL, 0, NULL, 0, 0, ALWAYS | RPMA_F_MORE, &pair));
    struct ibv_wc wc;
    assert_rpma(rpma_cq_get_wc(pair.client.cq, 1, &wc, NULL), RPMA_E_NO_COMPLETION);
    assert_done(ring(pair.client.conn));
    expect_success(pair.client.cq, IBV_WC_RDMA_WRITE, &pair);
    assert_filled(pair.server.memory.ptr, 64, 3);
}

CASE(queued_operations_complete_with_an_error_after_disconnect)
{
    struct pair pair = connect_pair();
    assert_done(rpma_recv(pair.client.conn, pair.client.memory.mr, 0, 8, &pair));
    assert_done(rpma_send(pair.client.conn, NULL, 0, 0, ALWAYS | RPMA_F_MORE, NULL));
    assert_done(rpma_conn_disconnect(pair.client.conn));
    /* The send has no receive, so it is among the operations that the end of the connection flushes. */
    struct ibv_wc first = next_completion(pair.client.cq), second = next_completion(pair.client.cq);
    assert_true(first.status != IBV_WC_SUCCESS && second.status != IBV_WC_SUCCESS);
    assert_true(first.wr_id == 0 || second.wr_id == 0);
}
