// SPDX-License-Identifier: BSD-3-Clause
#include "support.h"

// rpma_conn_wait on a connection whose two CQs share a completion channel.

static struct rpma_cq *cq;
static struct rpma_cq *rcq;
static struct ibv_cq *main_face;
static struct ibv_cq *receive_face;

static int begin(void **state)
{
    begin_peer_test(state);
    cfg = make_cfg(true, 5);
    conn = make_conn(peer, cfg);
    assert_int_equal(rpma_conn_cfg_delete(&cfg), 0);
    assert_int_equal(rpma_conn_get_cq(conn, &cq), 0);
    assert_int_equal(rpma_conn_get_rcq(conn, &rcq), 0);
    main_face = newest_qp()->send_cq;
    receive_face = newest_qp()->recv_cq;
    fake_forget_calls();
    return 0;
}

#define WAIT_TEST(name) DEFINE_TEST(name, begin, end_test)

WAIT_TEST(the_queue_with_the_event_is_returned_and_armed)
{
    struct ibv_cq *const faces[] = {main_face, receive_face};
    struct rpma_cq *const queues[] = {cq, rcq};
    const struct ibv_wc wc = {.wr_id = 1};
    for (int round = 0; round < 4; ++round) {
        struct rpma_cq *fired = NULL;
        bool is_rcq = round % 2 == 0;
        fake_forget_calls();
        fake_complete(faces[round % 2], &wc);
        assert_done(rpma_conn_wait(conn, round, &fired, round < 2 ? &is_rcq : NULL));
        assert_ptr_equal(fired, queues[round % 2]);
        if (round < 2)
            assert_int_equal(is_rcq, round % 2 == 1);
        assert_calls("ibv_get_cq_event ibv_ack_cq_events ibv_req_notify_cq");
    }
}

WAIT_TEST(an_empty_nonblocking_channel_is_no_completion)
{
    struct rpma_cq *fired = BOGUS;
    bool is_rcq = true;
    set_nonblocking(main_face->channel->fd);
    assert_int_equal(rpma_conn_wait(conn, 0, &fired, &is_rcq), RPMA_E_NO_COMPLETION);
    assert_int_equal(errno, EAGAIN);
    assert_ptr_equal(fired, BOGUS);
    assert_true(is_rcq);
    assert_int_equal(log_count(RPMA_LOG_LEVEL_WARNING), 0);
}

WAIT_TEST(an_unexpected_error_of_the_channel_is_returned_and_left_in_errno)
{
    struct rpma_cq *fired = BOGUS;
    fake_fail_call(1, EBADF, false);
    assert_int_equal(rpma_conn_wait(conn, 0, &fired, NULL), RPMA_E_NO_COMPLETION);
    assert_int_equal(errno, EBADF);
    assert_int_equal(log_count(RPMA_LOG_LEVEL_WARNING), 1);
}

WAIT_TEST(a_queue_that_cannot_be_armed_again_is_a_provider_error)
{
    struct rpma_cq *fired = BOGUS;
    bool is_rcq = false;
    fake_fire(receive_face);
    fake_fail_call(2, EIO, false);
    assert_provider(rpma_conn_wait(conn, 0, &fired, &is_rcq), EIO);
    assert_ptr_equal(fired, BOGUS);
    assert_false(is_rcq);
}

WAIT_TEST(the_event_of_another_queue_is_acknowledged_and_unknown)
{
    struct rpma_cq *fired = BOGUS;
    bool is_rcq = true;
    struct ibv_cq *const foreign = ibv_create_cq(fake_context(), 5, NULL, main_face->channel, 0);
    fake_fire(foreign);
    assert_int_equal(rpma_conn_wait(conn, 0, &fired, &is_rcq), RPMA_E_UNKNOWN);
    assert_ptr_equal(fired, BOGUS);
    assert_true(is_rcq);
    assert_int_equal(log_count(RPMA_LOG_LEVEL_ERROR), 1);
    // Waits for the acknowledgement.
    assert_int_equal(ibv_destroy_cq(foreign), 0);
}

WAIT_TEST(deleting_destroys_the_shared_channel_after_the_identifier)
{
    assert_int_equal(rpma_conn_delete(&conn), 0);
    assert_calls("rdma_destroy_qp ibv_dereg_mr ibv_destroy_cq ibv_destroy_cq rdma_destroy_id "
                 "ibv_destroy_comp_channel rdma_destroy_event_channel");
}
