// SPDX-License-Identifier: BSD-3-Clause
#include "../driver/suite.h"
#include "../support/rdma.h"
#include "../support/signals.h"

SUITE(cq);

static void post(struct pair *pair, int count)
{
    while (count--)
        assert_done(rpma_write(pair->client.conn, NULL, 0, NULL, 0, 0, ALWAYS, pair));
}

CASE(an_empty_queue_has_no_completion)
{
    struct pair pair = connect_pair();
    struct ibv_wc wc;
    int got = 77;
    memset(&wc, 0xaa, sizeof(wc));
    assert_rpma(rpma_cq_get_wc(pair.client.cq, 1, &wc, &got), RPMA_E_NO_COMPLETION);
    assert_int_equal(got, 77);
}

CASE(fewer_entries_than_1_are_refused)
{
    struct pair pair = connect_pair();
    struct ibv_wc wc;
    int got = 77;
    assert_rpma(rpma_cq_get_wc(pair.client.cq, 0, &wc, &got), RPMA_E_INVAL);
    assert_rpma(rpma_cq_get_wc(pair.client.cq, -1, &wc, NULL), RPMA_E_INVAL);
    assert_int_equal(got, 77);
}

CASE(one_entry_is_counted)
{
    struct pair pair = connect_pair();
    struct ibv_wc wc;
    int got = 77;
    post(&pair, 1);
    assert_done(rpma_cq_wait(pair.client.cq));
    assert_done(rpma_cq_get_wc(pair.client.cq, 1, &wc, &got));
    assert_int_equal(got, 1);
}

/* Polls the completions of 5 operations with calls for up to `limit` entries. Returns the maximum that one call
 * returned. */
static int collect_in_calls_for(struct pair *pair, int limit)
{
    int max_got = 0;
    post(pair, 5);
    usleep(20000);
    for (int all = 0; all < 5;) {
        struct ibv_wc wc[8];
        int got = 0;
        memset(wc, 0xaa, sizeof(wc));
        int result = rpma_cq_get_wc(pair->client.cq, limit, wc, &got);
        if (result == RPMA_E_NO_COMPLETION)
            continue;
        assert_rpma(result, 0);
        assert_true(got >= 1 && got <= limit && all + got <= 5);
        for (int i = 0; i < got; ++i)
            assert_int_equal(wc[i].status, IBV_WC_SUCCESS);
        assert_int_equal(wc[limit].wr_id, UINT64_C(0xaaaaaaaaaaaaaaaa));
        all += got;
        max_got = got > max_got ? got : max_got;
    }
    return max_got;
}

CASE(several_entries_are_collected_at_once)
{
    struct pair pair = connect_pair();
    while (collect_in_calls_for(&pair, 7) < 2)
        ;
}

CASE(at_most_the_requested_entries_are_polled)
{
    struct pair pair = connect_pair();
    while (collect_in_calls_for(&pair, 2) < 2)
        ;
}

CASE(waiting_arms_the_queue_again)
{
    struct pair pair = connect_pair();
    for (int i = 0; i < 100; ++i) {
        struct ibv_wc wc;
        post(&pair, 1);
        int result;
        /* An event without a completion is allowed. */
        do {
            assert_done(rpma_cq_wait(pair.client.cq));
            result = rpma_cq_get_wc(pair.client.cq, 1, &wc, NULL);
        } while (result == RPMA_E_NO_COMPLETION);
        assert_rpma(result, 0);
    }
}

CASE(the_descriptor_is_readable_when_a_completion_waits)
{
    struct pair pair = connect_pair();
    assert_not_readable(cq_fd(pair.client.cq));
    post(&pair, 1);
    await_readable(cq_fd(pair.client.cq));
    assert_done(rpma_cq_wait(pair.client.cq));
    expect_success(pair.client.cq, IBV_WC_RDMA_WRITE, &pair);
    /* A device may report a pending completion again when the queue is armed again. */
    make_nonblocking(cq_fd(pair.client.cq));
    while (rpma_cq_wait(pair.client.cq) == 0)
        ;
    assert_not_readable(cq_fd(pair.client.cq));
}

CASE(the_descriptor_stays_the_same)
{
    struct pair pair = connect_pair();
    assert_int_equal(cq_fd(pair.client.cq), cq_fd(pair.client.cq));
    assert_int_not_equal(cq_fd(pair.client.cq), cq_fd(pair.server.cq));
}

CASE(a_receive_queue_has_its_own_descriptor)
{
    struct rpma_conn_cfg *cfg = new_cfg();
    assert_done(rpma_conn_cfg_set_rcq_size(cfg, 4));
    struct pair pair = connect_pair_with(new_peer(), cfg, NULL);
    struct rpma_cq *rcq = receive_cq(pair.client.conn);
    assert_int_not_equal(cq_fd(rcq), cq_fd(pair.client.cq));
    post(&pair, 1);
    await_readable(cq_fd(pair.client.cq));
    assert_not_readable(cq_fd(rcq));
    assert_done(rpma_recv(pair.client.conn, NULL, 0, 0, &pair));
    assert_done(rpma_send(pair.server.conn, NULL, 0, 0, ALWAYS, NULL));
    assert_done(rpma_cq_wait(rcq));
    expect_success(rcq, IBV_WC_RECV, &pair);
}

CASE(without_an_event_a_nonblocking_queue_has_no_completion)
{
    struct pair pair = connect_pair();
    make_nonblocking(cq_fd(pair.client.cq));
    for (int i = 0; i < 3; ++i)
        assert_rpma(rpma_cq_wait(pair.client.cq), RPMA_E_NO_COMPLETION);
    post(&pair, 1);
    await_readable(cq_fd(pair.client.cq));
    assert_done(rpma_cq_wait(pair.client.cq));
    expect_success(pair.client.cq, IBV_WC_RDMA_WRITE, &pair);
}

static void post_one(void *argument)
{
    post(argument, 1);
}

CASE(a_signal_does_not_end_the_wait_for_a_completion)
{
    struct pair pair = connect_pair();
    begin_interrupting();
    run_later(post_one, &pair);
    assert_done(rpma_cq_wait(pair.client.cq));
    expect_success(pair.client.cq, IBV_WC_RDMA_WRITE, &pair);
}

static void end_it(void *argument)
{
    struct pair *pair = argument;
    assert_done(rpma_conn_disconnect(pair->client.conn));
}

CASE(a_signal_does_not_end_the_wait_for_an_event)
{
    struct pair pair = connect_pair();
    begin_interrupting();
    run_later(end_it, &pair);
    expect_event(pair.server.conn, RPMA_CONN_CLOSED);
}

static void knock(void *listener)
{
    call_listener(listener);
}

CASE(a_signal_does_not_end_the_wait_for_a_request)
{
    struct listener listener = listen_somewhere(new_peer());
    begin_interrupting();
    run_later(knock, &listener);
    next_request(listener.ep, NULL);
}

CASE(entries_stay_until_they_are_collected)
{
    struct pair pair = connect_pair();
    post(&pair, 5);
    usleep(50000);
    for (int i = 0; i < 5; ++i)
        expect_success(pair.client.cq, IBV_WC_RDMA_WRITE, &pair);
    struct ibv_wc wc;
    assert_rpma(rpma_cq_get_wc(pair.client.cq, 1, &wc, NULL), RPMA_E_NO_COMPLETION);
}
