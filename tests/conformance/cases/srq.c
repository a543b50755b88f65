// SPDX-License-Identifier: BSD-3-Clause
#include "../driver/suite.h"
#include "../support/rdma.h"

SUITE(srq);

#define UNTOUCHED ((struct rpma_srq *)(uintptr_t)64)

static struct rpma_cq *own_cq(const struct rpma_srq *srq)
{
    struct rpma_cq *rcq = (struct rpma_cq *)(uintptr_t)64;
    assert_done(rpma_srq_get_rcq(srq, &rcq));
    return rcq;
}

struct pool {
    struct rpma_srq *srq;
    struct pair pair;
};

/* The server side of the pair receives from the shared receive queue. */
static struct pool connect_to_pool(uint32_t srq_rcq_size, uint32_t conn_rcq_size)
{
    struct rpma_peer *peer = new_peer();
    struct pool pool = {.srq = new_srq(peer, 16, srq_rcq_size)};
    struct rpma_conn_cfg *cfg = new_cfg();
    assert_done(rpma_conn_cfg_set_srq(cfg, pool.srq));
    assert_done(rpma_conn_cfg_set_rcq_size(cfg, conn_rcq_size));
    pool.pair = connect_pair_with(peer, NULL, cfg);
    return pool;
}

/* Sends a message to a shared receive and checks that it completes on `cq`. */
static void assert_received_on(struct pool *pool, struct rpma_cq *cq)
{
    struct pair *pair = &pool->pair;
    fill(pair->client.memory.ptr, 64, 2);
    assert_done(rpma_srq_recv(pool->srq, pair->server.memory.mr, 128, 64, pool));
    assert_done(rpma_send(pair->client.conn, pair->client.memory.mr, 0, 64, ALWAYS, NULL));
    assert_int_equal(expect_success(cq, IBV_WC_RECV, pool).byte_len, 64);
    assert_filled(pair->server.memory.ptr + 128, 64, 2);
}

CASE(it_is_created_with_the_defaults_and_deleted)
{
    struct rpma_srq *srq = NULL;
    assert_done(rpma_srq_new(new_peer(), NULL, &srq));
    assert_non_null(srq);
    assert_non_null(own_cq(srq));
    assert_done(rpma_srq_delete(&srq));
    assert_null(srq);
    assert_done(rpma_srq_delete(&srq));
}

CASE(its_own_queue_stays_the_same)
{
    struct rpma_srq *srq = new_srq(new_peer(), 4, 4);
    assert_non_null(own_cq(srq));
    assert_ptr_equal(own_cq(srq), own_cq(srq));
}

CALL_CASE(with_size_0_it_has_no_receive_cq, assert_null(own_cq(new_srq(new_peer(), 4, 0))));

static void too_large_for_the_device(int (*set_size)(struct rpma_srq_cfg *, uint32_t))
{
    struct rpma_srq_cfg *cfg = NULL;
    struct rpma_srq *srq = UNTOUCHED;
    assert_done(rpma_srq_cfg_new(&cfg));
    assert_done(set_size(cfg, UINT32_MAX));
    assert_rpma(rpma_srq_new(new_peer(), cfg, &srq), RPMA_E_PROVIDER);
    assert_ptr_equal(srq, UNTOUCHED);
}

CALL_CASE(more_receives_than_the_device_has_are_a_provider_error, too_large_for_the_device(rpma_srq_cfg_set_rq_size));
CALL_CASE(a_larger_queue_than_the_device_has_is_a_provider_error, too_large_for_the_device(rpma_srq_cfg_set_rcq_size));

CASE(a_receive_needs_a_region_for_its_bytes)
{
    struct rpma_srq *srq = new_srq(new_peer(), 4, 4);
    assert_rpma(rpma_srq_recv(srq, NULL, 0, 8, NULL), RPMA_E_INVAL);
    assert_rpma(rpma_srq_recv(srq, NULL, 8, 0, NULL), RPMA_E_INVAL);
}

CASE(a_receive_outside_its_region_is_refused)
{
    struct rpma_peer *peer = new_peer();
    struct region region = new_region(peer, 4096, USAGE_ALL);
    struct rpma_srq *srq = new_srq(peer, 4, 4);
    assert_rpma(rpma_srq_recv(srq, region.mr, 4000, 97, NULL), RPMA_E_INVAL);
    assert_rpma(rpma_srq_recv(srq, region.mr, SIZE_MAX, 2, NULL), RPMA_E_INVAL);
}

CASE(a_receive_may_have_no_region)
{
    struct pool pool = connect_to_pool(8, 0);
    assert_done(rpma_srq_recv(pool.srq, NULL, 0, 0, &pool));
    assert_done(rpma_send(pool.pair.client.conn, NULL, 0, 0, ALWAYS, NULL));
    expect_success(own_cq(pool.srq), IBV_WC_RECV, &pool);
}

CASE(more_receives_than_it_holds_are_a_provider_error)
{
    struct rpma_srq *srq = new_srq(new_peer(), 4, 4);
    int posted = 0;
    int result = 0;
    /* A device may round the size up. */
    while (posted < 100000 && (result = rpma_srq_recv(srq, NULL, 0, 0, NULL)) == 0)
        ++posted;
    assert_true(posted >= 4);
    assert_rpma(result, RPMA_E_PROVIDER);
}

CASE(its_own_queue_goes_before_that_of_the_connection)
{
    struct pool pool = connect_to_pool(8, 8);
    assert_null(receive_cq(pool.pair.server.conn));
    assert_received_on(&pool, own_cq(pool.srq));
}

CASE(without_its_own_receives_complete_on_that_of_the_connection)
{
    struct pool pool = connect_to_pool(0, 8);
    assert_non_null(receive_cq(pool.pair.server.conn));
    assert_received_on(&pool, receive_cq(pool.pair.server.conn));
}

CASE(without_any_receives_complete_on_the_main_queue)
{
    struct pool pool = connect_to_pool(0, 0);
    assert_null(receive_cq(pool.pair.server.conn));
    assert_received_on(&pool, pool.pair.server.cq);
}

CASE(its_queue_can_be_waited_for)
{
    struct pool pool = connect_to_pool(8, 0);
    struct rpma_cq *cq = own_cq(pool.srq);
    assert_not_readable(cq_fd(cq));
    assert_done(rpma_srq_recv(pool.srq, NULL, 0, 0, &pool));
    assert_done(rpma_send(pool.pair.client.conn, NULL, 0, 0, ALWAYS, NULL));
    await_readable(cq_fd(cq));
    assert_done(rpma_cq_wait(cq));
    expect_success(cq, IBV_WC_RECV, &pool);
}

CASE(a_connection_on_it_rejects_receives)
{
    struct pool pool = connect_to_pool(8, 0);
    assert_rpma(rpma_recv(pool.pair.server.conn, pool.pair.server.memory.mr, 0, 64, NULL), RPMA_E_PROVIDER);
}

CASE(connections_share_its_receives)
{
    struct rpma_peer *peer = new_peer();
    struct rpma_srq *srq = new_srq(peer, 16, 16);
    struct rpma_conn_cfg *cfg = new_cfg();
    assert_done(rpma_conn_cfg_set_srq(cfg, srq));
    struct pair first = connect_pair_with(peer, NULL, cfg);
    struct pair second = connect_pair_with(peer, NULL, cfg);
    uint32_t numbers[2] = {0, 0};
    assert_done(rpma_conn_get_qp_num(first.server.conn, &numbers[0]));
    assert_done(rpma_conn_get_qp_num(second.server.conn, &numbers[1]));
    for (int i = 0; i < 8; ++i) {
        assert_done(rpma_srq_recv(srq, NULL, 0, 0, &first));
        assert_done(rpma_send(i % 2 ? second.client.conn : first.client.conn, NULL, 0, 0, ALWAYS, NULL));
        assert_int_equal(expect_success(own_cq(srq), IBV_WC_RECV, &first).qp_num, numbers[i % 2]);
    }
}

CASE(it_can_be_deleted_after_its_connections)
{
    struct pool pool = connect_to_pool(8, 0);
    disconnect(&pool.pair);
    assert_done(rpma_conn_delete(&pool.pair.server.conn));
    assert_done(rpma_srq_delete(&pool.srq));
}

CASE(deleting_it_under_a_connection_fails_and_consumes_it)
{
    struct pool pool = connect_to_pool(0, 0);
    assert_rpma(rpma_srq_delete(&pool.srq), RPMA_E_PROVIDER);
    assert_null(pool.srq);
}
