// SPDX-License-Identifier: BSD-3-Clause
/* Tests of rpma_conn_get_counters(). A library before 1.4 lacks it, so it is resolved at run time. */
#include "../driver/suite.h"
#include "../support/rdma.h"

SUITE(counters);

static struct rpma_conn_counters counters_of(const struct rpma_conn *conn)
{
    int (*function)(const struct rpma_conn *conn, struct rpma_conn_counters *counters, size_t size);
    *(void **)&function = since_1_4("rpma_conn_get_counters");
    struct rpma_conn_counters counters;
    memset(&counters, 0xff, sizeof(counters));
    assert_done(function(conn, &counters, sizeof(counters)));
    return counters;
}

CASE(operations_are_counted_on_the_side_that_posts_them)
{
    struct pair pair = connect_pair();
    struct rpma_conn *conn = pair.client.conn;
    const struct rpma_conn_counters before = counters_of(conn);
    const struct rpma_conn_counters server_before = counters_of(pair.server.conn);
    assert_done(rpma_recv(pair.server.conn, pair.server.memory.mr, 0, 64, &pair));
    assert_done(rpma_write(conn, pair.client.remote, 0, pair.client.memory.mr, 0, 100, ON_ERROR, NULL));
    assert_done(rpma_flush(conn, pair.client.remote, 0, 100, RPMA_FLUSH_TYPE_VISIBILITY, ON_ERROR, NULL));
    assert_done(rpma_read(conn, pair.client.memory.mr, 0, pair.client.remote, 0, 20, ON_ERROR, NULL));
    assert_done(rpma_send(conn, pair.client.memory.mr, 0, 7, ALWAYS, NULL));
    expect_success(pair.client.cq, IBV_WC_SEND, NULL);
    expect_success(pair.server.cq, IBV_WC_RECV, &pair);
    const struct rpma_conn_counters after = counters_of(conn);
    assert_int_equal(after.writes - before.writes, 1);
    assert_int_equal(after.write_bytes - before.write_bytes, 100);
    assert_int_equal(after.flushes - before.flushes, 1);
    assert_int_equal(after.reads - before.reads, 1);
    assert_int_equal(after.read_bytes - before.read_bytes, 20);
    assert_int_equal(after.sends - before.sends, 1);
    assert_int_equal(after.send_bytes - before.send_bytes, 7);
    assert_int_equal(after.receives, before.receives);
    assert_int_equal(after.atomic_writes, before.atomic_writes);
    const struct rpma_conn_counters server_after = counters_of(pair.server.conn);
    assert_int_equal(server_after.receives - server_before.receives, 1);
    assert_int_equal(server_after.writes, server_before.writes);
}
