/* SPDX-License-Identifier: BSD-3-Clause */
/* Asynchronous events and their causes. */
#include "fixture.h"

#include <poll.h>
#include <unistd.h>

static void expect_no_async(struct ibv_context *context)
{
    struct pollfd ready = {.fd = context->async_fd, .events = POLLIN};
    assert_int_equal(poll(&ready, 1, 50), 0);
}

/* The process has one context of the connection manager, so the pairs of this program exist one at a time. */
DEFINE_TEST(a_full_completion_queue_overflows, NULL, NULL)
{
    struct ibv_wc wc[8];
    OPEN_PAIR(p, &(struct options){.depth = 8});
    struct ibv_context *context = p.client.id->verbs;
    assert_int_equal(ibv_resize_cq(p.client.cq, 3), 0);
    for (uint64_t i = 0; i < 3; ++i)
        assert_int_equal(post(&p.client, IBV_WR_RDMA_WRITE, i, 0, 8, &p.server, 0, 0), 0);
    usleep(20000);
    expect_no_async(context); /* a full queue has not overflowed */
    assert_int_equal(ibv_resize_cq(p.client.cq, 2), EINVAL);
    assert_int_equal(p.client.cq->cqe, 3);
    assert_int_equal(post(&p.client, IBV_WR_RDMA_WRITE, 3, 0, 8, &p.server, 0, 0), 0);
    expect_async(context, IBV_EVENT_CQ_ERR, p.client.cq);
    expect_async(context, IBV_EVENT_QP_FATAL, p.client.qp);
    assert_int_equal(state_of(p.client.qp), IBV_QPS_ERR);
    assert_int_equal(state_of(p.server.qp), IBV_QPS_RTS);
    assert_int_equal(ibv_poll_cq(p.client.cq, 8, wc), 3);
    assert_int_equal(post(&p.client, IBV_WR_RDMA_WRITE, 4, 0, 8, &p.server, 0, 0), 0);
    assert_int_equal(ibv_poll_cq(p.client.cq, 8, wc), 0); /* the queue is unusable */
    expect_no_async(context);
}

DEFINE_TEST(an_overflow_spares_the_other_queues, NULL, NULL)
{
    OPEN_PAIR(p, &(struct options){.depth = 8});
    struct ibv_context *context = p.client.id->verbs;
    assert_int_equal(ibv_resize_cq(p.server.cq, 1), 0);
    for (uint64_t i = 0; i < 2; ++i) {
        assert_int_equal(post_receive(&p.server, i, 0, 8), 0);
        post_and_expect(&p.client, IBV_WR_SEND, i, 0, 8, NULL, 0, IBV_WC_SUCCESS);
    }
    expect_async(context, IBV_EVENT_CQ_ERR, p.server.cq);
    expect_async(context, IBV_EVENT_QP_FATAL, p.server.qp);
    assert_int_equal(state_of(p.server.qp), IBV_QPS_ERR);
    post_and_expect(&p.client, IBV_WR_RDMA_WRITE, 7, 0, 8, &p.server, 0, IBV_WC_RETRY_EXC_ERR);
}

PAIR_TEST(a_drained_send_queue_is_announced, connected)
{
    struct ibv_context *context = p->client.id->verbs;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};
    /* No receive is posted: the message remains in flight. */
    assert_int_equal(post(&p->client, IBV_WR_SEND, 1, 0, 8, NULL, 0, 0), 0);
    assert_int_equal(ibv_modify_qp(p->client.qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
    assert_int_equal(post(&p->client, IBV_WR_RDMA_WRITE, 2, 0, 8, &p->server, 0, 0), 0);
    expect_no_async(context);
    struct ibv_qp_init_attr init;
    assert_int_equal(ibv_query_qp(p->client.qp, &attr, IBV_QP_STATE, &init), 0);
    assert_int_equal(attr.sq_draining, 1);
    assert_int_equal(post_receive(&p->server, 1, 0, 8), 0);
    expect_completion(p->client.cq, 1, IBV_WC_SUCCESS);
    expect_async(context, IBV_EVENT_SQ_DRAINED, p->client.qp);
    expect_no_completion_for(p->client.cq, 20); /* later requests wait */
    assert_int_equal(enter_state(p->client.qp, IBV_QPS_RTS), 0);
    expect_completion(p->client.cq, 2, IBV_WC_SUCCESS);
}

static void *destroy_qp(void *qp)
{
    return (void *)(intptr_t)ibv_destroy_qp(qp);
}

static void *destroy_cq(void *cq)
{
    return (void *)(intptr_t)ibv_destroy_cq(cq);
}

static void *destroy_srq(void *srq)
{
    return (void *)(intptr_t)ibv_destroy_srq(srq);
}

/* Destroys the object. The call must wait until the event is acknowledged. */
static void expect_to_wait(void *(*destroy)(void *), void *object, struct ibv_async_event *event)
{
    const pthread_t thread = start_waiting_call(destroy, object);
    ibv_ack_async_event(event);
    finish_waiting_call(thread);
}

DEFINE_TEST(destroying_waits_for_acknowledgements, NULL, NULL)
{
    OPEN_PAIR(p, &(struct options){.server_srq = true});
    struct ibv_context *context = p.server.id->verbs;
    struct ibv_srq_attr limit = {.srq_limit = 1};
    struct ibv_recv_wr wr = {.wr_id = 1}, *bad = NULL;
    assert_int_equal(ibv_post_srq_recv(p.srq, &wr, &bad), 0);
    assert_int_equal(ibv_modify_srq(p.srq, &limit, IBV_SRQ_LIMIT), 0);
    assert_int_equal(post(&p.client, IBV_WR_SEND, 1, 0, 0, NULL, 0, 0), 0);
    struct ibv_async_event reached = next_async(context, IBV_EVENT_SRQ_LIMIT_REACHED);
    assert_ptr_equal(reached.element.srq, p.srq);

    assert_int_equal(ibv_resize_cq(p.server.cq, 1), 0);
    assert_int_equal(ibv_post_srq_recv(p.srq, &wr, &bad), 0);
    assert_int_equal(post(&p.client, IBV_WR_SEND, 2, 0, 0, NULL, 0, 0), 0);
    struct ibv_async_event overflow = next_async(context, IBV_EVENT_CQ_ERR);
    struct ibv_async_event fatal = next_async(context, IBV_EVENT_QP_FATAL);
    expect_async(context, IBV_EVENT_QP_LAST_WQE_REACHED, p.server.qp);

    expect_to_wait(destroy_qp, p.server.qp, &fatal);
    p.server.id->qp = NULL;
    expect_to_wait(destroy_cq, p.server.cq, &overflow);
    p.server.cq = NULL;
    expect_to_wait(destroy_srq, p.srq, &reached);
    p.srq = NULL;
}
