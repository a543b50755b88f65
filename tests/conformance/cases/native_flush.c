// SPDX-License-Identifier: BSD-3-Clause
/*
 * Tests of rpma_conn_get_native_flush() and rpma_mr_get_native_flush_type(). A library before 1.4 lacks them, so they
 * are resolved at run time.
 */
#include "../driver/suite.h"
#include "../support/rdma.h"

SUITE(native_flush);

#define BOTH_TYPES (RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY | RPMA_MR_USAGE_FLUSH_TYPE_PERSISTENT)

static int get_native(const struct rpma_conn *conn, bool *native)
{
    int (*function)(const struct rpma_conn *conn, bool *native);
    *(void **)&function = since_1_4("rpma_conn_get_native_flush");
    return function(conn, native);
}

static int get_type(const struct rpma_mr_local *mr, int *flush_type)
{
    int (*function)(const struct rpma_mr_local *mr, int *flush_type);
    *(void **)&function = since_1_4("rpma_mr_get_native_flush_type");
    return function(mr, flush_type);
}

static int type_of(struct rpma_peer *peer, int usage)
{
    const struct region region = new_region(peer, 4096, usage);
    int type = -1;
    assert_done(get_type(region.mr, &type));
    return type;
}

CASE(a_flush_completes_as_the_connection_reports)
{
    bool native = false;
    struct pair pair = connect_pair();
    assert_done(get_native(pair.client.conn, &native));
    assert_done(rpma_flush(pair.client.conn, pair.client.remote, 0, 8, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS, &pair));
    /* IBV_WC_FLUSH since rdma-core 45 */
    expect_success(pair.client.cq, native ? (enum ibv_wc_opcode)8 : IBV_WC_RDMA_READ, &pair);
}

CASE(no_flush_is_native_where_the_environment_forbids_it)
{
    bool native = true;
    assert_int_equal(setenv("RPMA_FLUSH_METHOD", "emulated", 1), 0);
    struct pair pair = connect_pair();
    assert_done(get_native(pair.client.conn, &native));
    assert_false(native);
}

CASE(native_flushes_reach_no_more_than_a_region_is_registered_for)
{
    struct rpma_peer *const peer = new_peer();
    const int visible = type_of(peer, RPMA_MR_USAGE_WRITE_DST | RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY);
    assert_int_equal(visible & ~RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY, 0);
    const int both = type_of(peer, RPMA_MR_USAGE_WRITE_DST | BOTH_TYPES);
    assert_int_equal(both & ~BOTH_TYPES, 0);
    /* A device may reject persistence for this memory. It then still flushes to visibility. */
    assert_int_equal(both & RPMA_MR_USAGE_FLUSH_TYPE_VISIBILITY, visible);
    assert_int_equal(type_of(peer, RPMA_MR_USAGE_WRITE_DST), 0);
}
