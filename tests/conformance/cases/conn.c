// SPDX-License-Identifier: BSD-3-Clause
/* Connection establishment and properties of connections. */
#include "../driver/suite.h"
#include "../support/rdma.h"

SUITE(conn);

#define NO_QUEUE ((struct rpma_cq *)(uintptr_t)64)

CASE(connecting_does_not_wait_for_the_other_side)
{
    struct listener listener = listen_somewhere(new_peer());
    struct rpma_conn *active = call_listener(&listener);
    assert_not_readable(event_fd(active));
}

CASE(the_event_descriptor_is_readable_when_an_event_waits)
{
    struct pair pair = connect_pair();
    assert_not_readable(event_fd(pair.server.conn));
    assert_done(rpma_conn_disconnect(pair.client.conn));
    await_readable(event_fd(pair.server.conn));
    expect_event(pair.server.conn, RPMA_CONN_CLOSED);
    assert_not_readable(event_fd(pair.server.conn));
}

CASE(each_connection_has_its_own_event_descriptor)
{
    struct pair pair = connect_pair();
    int client = event_fd(pair.client.conn), server = event_fd(pair.server.conn), ep = ep_fd(pair.listener.ep);
    assert_true(client != server && client != ep && server != ep);
    assert_int_equal(event_fd(pair.client.conn), client);
}

CASE(without_an_event_a_nonblocking_connection_has_none)
{
    struct pair pair = connect_pair();
    make_nonblocking(event_fd(pair.client.conn));
    for (int i = 0; i < 3; ++i) {
        enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
        assert_rpma(rpma_conn_next_event(pair.client.conn, &event), RPMA_E_NO_EVENT);
        assert_int_equal(event, RPMA_CONN_UNDEFINED);
    }
}

CASE(a_nonblocking_connection_reports_its_events)
{
    struct pair pair = connect_pair();
    make_nonblocking(event_fd(pair.server.conn));
    assert_done(rpma_conn_disconnect(pair.client.conn));
    await_readable(event_fd(pair.server.conn));
    expect_event(pair.server.conn, RPMA_CONN_CLOSED);
}

static uint32_t qp_num(const struct rpma_conn *conn)
{
    uint32_t number = 0;
    assert_done(rpma_conn_get_qp_num(conn, &number));
    return number;
}

CASE(the_queue_pair_number_is_that_of_completions)
{
    struct pair pair = connect_pair();
    assert_done(rpma_write(pair.client.conn, NULL, 0, NULL, 0, 0, ALWAYS, NULL));
    assert_int_equal(next_completion(pair.client.cq).qp_num, qp_num(pair.client.conn));
}

CASE(queue_pair_numbers_differ)
{
    struct pair pair = connect_pair();
    struct pair second = connect_again(&pair);
    assert_int_not_equal(qp_num(pair.client.conn), qp_num(pair.server.conn));
    assert_int_not_equal(qp_num(pair.client.conn), qp_num(second.client.conn));
}

CASE(the_queue_pair_number_outlives_the_end)
{
    struct pair pair = connect_pair();
    uint32_t before = qp_num(pair.client.conn);
    disconnect(&pair);
    assert_int_equal(qp_num(pair.client.conn), before);
}

CASE(the_main_queue_stays_the_same)
{
    struct pair pair = connect_pair();
    assert_ptr_equal(main_cq(pair.client.conn), pair.client.cq);
    assert_ptr_not_equal(pair.client.cq, pair.server.cq);
}

CASE(the_receive_queue_is_optional)
{
    struct pair pair = connect_pair();
    assert_null(receive_cq(pair.client.conn));
}

CASE(the_receive_queue_is_another_one)
{
    struct rpma_conn_cfg *cfg = new_cfg();
    assert_done(rpma_conn_cfg_set_rcq_size(cfg, 4));
    struct pair pair = connect_pair_with(new_peer(), cfg, NULL);
    struct rpma_cq *rcq = receive_cq(pair.client.conn);
    assert_non_null(rcq);
    assert_ptr_not_equal(rcq, pair.client.cq);
    assert_ptr_equal(receive_cq(pair.client.conn), rcq);
}

CASE(queues_may_be_as_small_as_1)
{
    struct rpma_conn_cfg *cfg = new_cfg();
    assert_done(rpma_conn_cfg_set_cq_size(cfg, 1));
    assert_done(rpma_conn_cfg_set_rcq_size(cfg, 1));
    assert_done(rpma_conn_cfg_set_sq_size(cfg, 1));
    assert_done(rpma_conn_cfg_set_rq_size(cfg, 1));
    struct pair pair = connect_pair_with(new_peer(), cfg, cfg);
    for (int i = 0; i < 20; ++i) {
        assert_done(rpma_write(pair.client.conn, pair.client.remote, 0, pair.client.memory.mr, 0, 8, ALWAYS, &pair));
        expect_success(pair.client.cq, IBV_WC_RDMA_WRITE, &pair);
    }
}

CASE(queues_may_be_as_large_as_1000)
{
    struct rpma_conn_cfg *cfg = new_cfg();
    assert_done(rpma_conn_cfg_set_cq_size(cfg, 1000));
    assert_done(rpma_conn_cfg_set_rcq_size(cfg, 1000));
    assert_done(rpma_conn_cfg_set_sq_size(cfg, 1000));
    assert_done(rpma_conn_cfg_set_rq_size(cfg, 1000));
    struct pair pair = connect_pair_with(new_peer(), cfg, NULL);
    for (int i = 0; i < 1000; ++i)
        assert_done(rpma_write(pair.client.conn, pair.client.remote, 0, pair.client.memory.mr, 0, 8, ALWAYS, &pair));
    for (int i = 0; i < 1000; ++i)
        expect_success(pair.client.cq, IBV_WC_RDMA_WRITE, &pair);
}

CASE(without_a_shared_channel_there_is_no_descriptor_of_it)
{
    struct pair pair = connect_pair();
    int fd = 77;
    assert_rpma(rpma_conn_get_compl_fd(pair.client.conn, &fd), RPMA_E_NOT_SHARED_CHNL);
    assert_int_equal(fd, 77);
}

CASE(without_a_shared_channel_there_is_no_waiting_on_it)
{
    struct pair pair = connect_pair();
    struct rpma_cq *cq = NO_QUEUE;
    bool is_rcq = true;
    assert_rpma(rpma_conn_wait(pair.client.conn, 0, &cq, &is_rcq), RPMA_E_NOT_SHARED_CHNL);
    assert_ptr_equal(cq, NO_QUEUE);
    assert_true(is_rcq);
}

CASE(many_connections_share_an_endpoint_and_a_peer)
{
    struct pair pairs[12];
    pairs[0] = connect_pair();
    for (size_t i = 1; i < 12; ++i)
        pairs[i] = connect_again(&pairs[0]);
    for (size_t i = 0; i < 12; ++i) {
        struct side *client = &pairs[i].client;
        fill(client->memory.ptr, 64, (unsigned)i + 1);
        assert_done(rpma_write(client->conn, client->remote, i * 64, client->memory.mr, 0, 64, ALWAYS, &pairs[i]));
        expect_success(client->cq, IBV_WC_RDMA_WRITE, &pairs[i]);
        assert_filled(pairs[0].server.memory.ptr + i * 64, 64, (unsigned)i + 1);
    }
}

CASE(a_peer_connects_in_both_directions)
{
    struct pair there = connect_pair();
    struct pair back = connect_pair_with(there.peer, NULL, NULL);
    assert_done(rpma_write(there.client.conn, NULL, 0, NULL, 0, 0, ALWAYS, &there));
    assert_done(rpma_write(back.client.conn, NULL, 0, NULL, 0, 0, ALWAYS, &back));
    expect_success(there.client.cq, IBV_WC_RDMA_WRITE, &there);
    expect_success(back.client.cq, IBV_WC_RDMA_WRITE, &back);
}

CASE(the_passive_side_may_operate_too)
{
    struct pair pair = connect_pair();
    fill(pair.server.memory.ptr, 100, 4);
    assert_done(rpma_write(pair.server.conn, pair.server.remote, 50, pair.server.memory.mr, 0, 100, ALWAYS, &pair));
    expect_success(pair.server.cq, IBV_WC_RDMA_WRITE, &pair);
    assert_filled(pair.client.memory.ptr + 50, 100, 4);
}

CASE(connections_run_over_ipv6)
{
    struct ibv_context *context = NULL;
    if (rpma_utils_get_ibv_context("::1", RPMA_UTIL_IBV_CONTEXT_LOCAL, &context))
        skip_because("no device serves the IPv6 address ::1");
    case_address = "::1";
    struct pair pair = connect_pair();
    assert_done(rpma_write(pair.client.conn, pair.client.remote, 0, pair.client.memory.mr, 0, 64, ALWAYS, &pair));
    expect_success(pair.client.cq, IBV_WC_RDMA_WRITE, &pair);
}

CASE(connections_can_be_established_repeatedly)
{
    struct pair pair = connect_pair();
    for (int i = 0; i < 20; ++i) {
        struct pair next = connect_again(&pair);
        disconnect(&next);
        assert_done(rpma_conn_delete(&next.client.conn));
        assert_done(rpma_conn_delete(&next.server.conn));
    }
}
