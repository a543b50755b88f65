// SPDX-License-Identifier: BSD-3-Clause
#include "../driver/suite.h"
#include "../support/rdma.h"
#include "../support/signals.h"

SUITE(shared_channel);

struct shared {
    struct pair pair;
    struct rpma_cq *rcq;
    int fd;
};

static struct shared connect_shared(uint32_t rcq_size)
{
    struct rpma_conn_cfg *cfg = new_cfg();
    assert_done(rpma_conn_cfg_set_compl_channel(cfg, true));
    assert_done(rpma_conn_cfg_set_rcq_size(cfg, rcq_size));
    struct shared shared = {.pair = connect_pair_with(new_peer(), cfg, NULL), .fd = -1};
    shared.rcq = receive_cq(shared.pair.client.conn);
    assert_done(rpma_conn_get_compl_fd(shared.pair.client.conn, &shared.fd));
    assert_true(shared.fd >= 0);
    return shared;
}

static void post(void *argument)
{
    struct shared *shared = argument;
    assert_done(rpma_write(shared->pair.client.conn, NULL, 0, NULL, 0, 0, ALWAYS, shared));
}

static void receive(struct shared *shared)
{
    assert_done(rpma_recv(shared->pair.client.conn, NULL, 0, 0, shared));
    assert_done(rpma_send(shared->pair.server.conn, NULL, 0, 0, ALWAYS, NULL));
}

/* Waits for an event, which must be that of the receive queue or of the main queue. */
static struct rpma_cq *expect_queue(const struct shared *shared, bool receive_queue)
{
    struct rpma_cq *cq = NULL;
    bool is_rcq = !receive_queue;
    assert_done(rpma_conn_wait(shared->pair.client.conn, 0, &cq, &is_rcq));
    assert_int_equal(is_rcq, receive_queue);
    assert_ptr_equal(cq, receive_queue ? shared->rcq : shared->pair.client.cq);
    return cq;
}

CASE(waiting_need_not_return_the_kind)
{
    struct shared shared = connect_shared(4);
    struct rpma_cq *cq = NULL;
    receive(&shared);
    assert_done(rpma_conn_wait(shared.pair.client.conn, 0, &cq, NULL));
    assert_ptr_equal(cq, shared.rcq);
}

CASE(waiting_ignores_its_flags)
{
    struct shared shared = connect_shared(4);
    struct rpma_cq *cq = NULL;
    post(&shared);
    assert_done(rpma_conn_wait(shared.pair.client.conn, ~0, &cq, NULL));
    assert_ptr_equal(cq, shared.pair.client.cq);
}

CASE(both_queues_get_events)
{
    struct shared shared = connect_shared(4);
    bool signaled[2] = {false, false};
    post(&shared);
    receive(&shared);
    while (!signaled[0] || !signaled[1]) {
        struct rpma_cq *cq = NULL;
        bool is_rcq = false;
        assert_done(rpma_conn_wait(shared.pair.client.conn, 0, &cq, &is_rcq));
        assert_ptr_equal(cq, is_rcq ? shared.rcq : shared.pair.client.cq);
        if (!signaled[is_rcq])
            expect_success(cq, is_rcq ? IBV_WC_RECV : IBV_WC_RDMA_WRITE, &shared);
        signaled[is_rcq] = true;
    }
}

static void complete_receive(struct shared *shared)
{
    receive(shared);
    expect_success(shared->pair.server.cq, IBV_WC_SEND, NULL);
    expect_success(shared->rcq, IBV_WC_RECV, shared);
}

static void complete_write(struct shared *shared)
{
    post(shared);
    expect_success(shared->pair.client.cq, IBV_WC_RDMA_WRITE, shared);
}

/* Completions are polled immediately, so each queue has one event, of its first or second operation. */
CASE(queues_get_events_in_the_order_of_their_completions)
{
    struct shared shared = connect_shared(4);
    for (int i = 0; i < 8; ++i) {
        const bool rcq_first = i % 4 < 2; /* an irregular order */
        (rcq_first ? complete_receive : complete_write)(&shared);
        await_readable(shared.fd); /* waits for the event of the first queue */
        (rcq_first ? complete_write : complete_receive)(&shared);
        expect_queue(&shared, rcq_first);
        expect_queue(&shared, !rcq_first);
    }
}

CASE(waiting_arms_the_queue_again)
{
    struct shared shared = connect_shared(4);
    for (int i = 0; i < 50; ++i) {
        struct ibv_wc wc;
        int result;
        post(&shared);
        do {
            result = rpma_cq_get_wc(expect_queue(&shared, false), 1, &wc, NULL);
        } while (result == RPMA_E_NO_COMPLETION);
        assert_rpma(result, 0);
    }
}

CASE(a_channel_without_receive_queue_returns_the_main_queue)
{
    struct shared shared = connect_shared(0);
    assert_null(shared.rcq);
    receive(&shared);
    expect_success(expect_queue(&shared, false), IBV_WC_RECV, &shared);
}

CASE(waiting_for_one_of_the_queues_alone_is_refused)
{
    struct shared shared = connect_shared(4);
    assert_rpma(rpma_cq_wait(shared.pair.client.cq), RPMA_E_SHARED_CHANNEL);
    assert_rpma(rpma_cq_wait(shared.rcq), RPMA_E_SHARED_CHANNEL);
}

CASE(its_descriptor_is_that_of_both_queues)
{
    struct shared shared = connect_shared(4);
    assert_int_equal(cq_fd(shared.pair.client.cq), shared.fd);
    assert_int_equal(cq_fd(shared.rcq), shared.fd);
}

CASE(its_descriptor_is_readable_when_a_completion_waits)
{
    struct shared shared = connect_shared(4);
    struct rpma_cq *cq = NULL;
    assert_not_readable(shared.fd);
    receive(&shared);
    await_readable(shared.fd);
    expect_success(expect_queue(&shared, true), IBV_WC_RECV, &shared);
    /* A device may report a pending completion again when the queue is armed again. */
    make_nonblocking(shared.fd);
    while (rpma_conn_wait(shared.pair.client.conn, 0, &cq, NULL) == 0)
        ;
    assert_not_readable(shared.fd);
}

CASE(a_nonblocking_channel_has_no_completion)
{
    struct shared shared = connect_shared(4);
    struct rpma_cq *cq = (struct rpma_cq *)(uintptr_t)64;
    bool is_rcq = true;
    make_nonblocking(shared.fd);
    assert_rpma(rpma_conn_wait(shared.pair.client.conn, 0, &cq, &is_rcq), RPMA_E_NO_COMPLETION);
    assert_ptr_equal(cq, (struct rpma_cq *)(uintptr_t)64);
    assert_true(is_rcq);
}

CASE(a_signal_does_not_end_the_wait)
{
    struct shared shared = connect_shared(4);
    begin_interrupting();
    run_later(post, &shared);
    expect_success(expect_queue(&shared, false), IBV_WC_RDMA_WRITE, &shared);
}

CASE(each_connection_has_its_own)
{
    struct shared first = connect_shared(4);
    struct shared second = connect_shared(4);
    assert_int_not_equal(first.fd, second.fd);
    post(&first);
    await_readable(first.fd);
    assert_not_readable(second.fd);
}

CASE(a_shared_queue_without_its_own_cq_goes_with_it)
{
    struct rpma_peer *peer = new_peer();
    struct rpma_conn_cfg *cfg = new_cfg();
    struct rpma_srq *srq = new_srq(peer, 8, 0);
    struct rpma_cq *cq = NULL;
    bool is_rcq = false;
    assert_done(rpma_conn_cfg_set_compl_channel(cfg, true));
    assert_done(rpma_conn_cfg_set_rcq_size(cfg, 4));
    assert_done(rpma_conn_cfg_set_srq(cfg, srq));
    struct pair pair = connect_pair_with(peer, NULL, cfg);
    struct rpma_cq *rcq = receive_cq(pair.server.conn);
    assert_done(rpma_srq_recv(srq, pair.server.memory.mr, 0, 64, &pair));
    assert_done(rpma_send(pair.client.conn, NULL, 0, 0, ALWAYS, NULL));
    assert_done(rpma_conn_wait(pair.server.conn, 0, &cq, &is_rcq));
    assert_true(is_rcq);
    assert_ptr_equal(cq, rcq);
    expect_success(rcq, IBV_WC_RECV, &pair);
}
