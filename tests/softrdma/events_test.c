/* SPDX-License-Identifier: BSD-3-Clause */
/* Asynchronous events and their causes, and channels: the descriptor of a channel is readable exactly while it has an
 * event. Programs that poll() it and then read rely on that. */
#include "fixture.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdatomic.h>

PAIR_TEST(a_channel_whose_events_moved_is_not_readable, connected)
{
    struct rdma_event_channel *first = p->server.channel;
    assert_int_equal(rdma_disconnect(p->client.id), 0);
    expect_readable(first->fd);
    p->server.channel = rdma_create_event_channel();
    assert_int_equal(rdma_migrate_id(p->server.id, p->server.channel), 0);
    expect_unreadable(first->fd, 0);
    assert_int_equal(expect_event(p->server.channel, RDMA_CM_EVENT_DISCONNECTED), 0);
    expect_unreadable(p->server.channel->fd, 0);
    rdma_destroy_event_channel(first);
}

DEFINE_TEST(events_of_other_ids_stay_readable, NULL, NULL)
{
    struct rdma_event_channel *first = rdma_create_event_channel();
    struct rdma_event_channel *second = rdma_create_event_channel();
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(1), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    struct rdma_cm_id *ids[2];
    for (int i = 0; i < 2; ++i) {
        assert_int_equal(rdma_create_id(first, &ids[i], NULL, RDMA_PS_TCP), 0);
        assert_int_equal(rdma_resolve_addr(ids[i], NULL, (struct sockaddr *)&to, 1000), 0);
    }
    assert_int_equal(rdma_migrate_id(ids[0], second), 0);
    for (int i = 0; i < 2; ++i) {
        struct rdma_cm_event *event = next_event(i == 0 ? second : first, RDMA_CM_EVENT_ADDR_RESOLVED);
        assert_ptr_equal(event->id, ids[i]);
        assert_int_equal(rdma_ack_cm_event(event), 0);
    }
    expect_unreadable(first->fd, 0);
    expect_unreadable(second->fd, 0);
    for (int i = 0; i < 2; ++i)
        assert_int_equal(rdma_destroy_id(ids[i]), 0);
    rdma_destroy_event_channel(first);
    rdma_destroy_event_channel(second);
}

PAIR_TEST(a_channel_whose_events_were_dropped_is_not_readable, connected)
{
    assert_int_equal(rdma_disconnect(p->client.id), 0);
    expect_readable(p->server.channel->fd);
    rdma_destroy_qp(p->server.id);
    assert_int_equal(rdma_destroy_id(p->server.id), 0);
    p->server.id = NULL;
    expect_unreadable(p->server.channel->fd, 0);
}

DEFINE_TEST(requests_destroyed_with_their_listener_are_rejected, NULL, NULL)
{
    PAIR p = {0};
    open_listener(&p, "127.0.0.1");
    resolve_client(&p, NULL);
    connect_client(&p, NULL);
    expect_readable(p.listen_channel->fd);
    assert_int_equal(rdma_destroy_id(p.listener), 0);
    p.listener = NULL;
    expect_unreadable(p.listen_channel->fd, 0);
    assert_int_equal(expect_event(p.client.channel, RDMA_CM_EVENT_REJECTED), 28);
}

PAIR_TEST(an_asynchronous_event_goes_with_its_object, connected)
{
    const int fd = p->server.id->verbs->async_fd;
    p->server.mr->rkey ^= 1;
    post_and_expect(&p->client, IBV_WR_RDMA_WRITE, 1, 0, 8, &p->server, 0, IBV_WC_REM_ACCESS_ERR);
    expect_readable(fd);
    rdma_destroy_qp(p->server.id);
    expect_unreadable(fd, 0);
}

PAIR_TEST(a_completion_event_goes_with_its_queue, connected)
{
    struct ibv_comp_channel *channel = p->server.completions;
    assert_non_null(channel);
    assert_int_equal(ibv_req_notify_cq(p->server.cq, 0), 0);
    assert_int_equal(post_receive(&p->server, 1, 0, 64), 0);
    assert_int_equal(post(&p->client, IBV_WR_SEND, 1, 0, 64, NULL, 0, 0), 0);
    expect_readable(channel->fd);
    rdma_destroy_qp(p->server.id);
    assert_int_equal(ibv_destroy_cq(p->server.cq), 0);
    p->server.cq = NULL;
    expect_unreadable(channel->fd, 0);
}

/* The device delays an event by 100 ms. A round in which a busy machine takes half of that is inconclusive. */
enum {
    max_rounds = 50,
    decisive_ms = 50,
};

/* Repeats a round until it returns true, that is, until it was fast enough. */
static void repeat_until_decided(bool (*try_round)(void))
{
    bool decided = false;
    for (unsigned i = 0; i < max_rounds && !decided; ++i)
        decided = try_round();
    assert_true(decided);
}

/* The client disconnects while the server has a completion that it has not read. Returns the time of the
 * disconnection. */
static long receive_and_be_left(struct pair *p)
{
    open_pair(p, NULL);
    assert_int_equal(ibv_req_notify_cq(p->server.cq, 0), 0);
    assert_int_equal(post_receive(&p->server, 1, 0, 64), 0);
    post_and_expect(&p->client, IBV_WR_SEND, 1, 0, 64, NULL, 0, IBV_WC_SUCCESS);
    const long start = now_ms();
    assert_int_equal(rdma_disconnect(p->client.id), 0);
    while (rdma_notify(p->server.id, IBV_EVENT_COMM_EST) == 0) /* waits until the server's device has processed it */
        usleep(100);
    return start;
}

static bool leave_completion(void)
{
    PAIR p;
    const long start = receive_and_be_left(&p);
    struct pollfd event = {.fd = p.server.channel->fd, .events = POLLIN};
    const int readable = poll(&event, 1, 0);
    const bool decided = now_ms() - start < decisive_ms;
    assert_true(readable == 0 || !decided);
    expect_readable(p.server.completions->fd);
    expect_completion(p.server.cq, 1, IBV_WC_SUCCESS);
    assert_int_equal(expect_event(p.server.channel, RDMA_CM_EVENT_DISCONNECTED), 0);
    return decided;
}

/* At DISCONNECTED, programs free the objects to which their completions refer. */
DEFINE_TEST(the_end_of_a_connection_waits_for_completions, NULL, NULL)
{
    repeat_until_decided(leave_completion);
}

DEFINE_TEST(the_end_of_a_connection_is_reported_without_a_reader, NULL, NULL)
{
    PAIR p;
    receive_and_be_left(&p);
    assert_int_equal(expect_event(p.server.channel, RDMA_CM_EVENT_DISCONNECTED), 0);
}

DEFINE_TEST(the_end_of_timewait_follows_that_of_the_connection, NULL, NULL)
{
    PAIR p;
    receive_and_be_left(&p);
    assert_int_equal(rdma_disconnect(p.server.id), 0); /* timewait begins */
    assert_int_equal(expect_event(p.server.channel, RDMA_CM_EVENT_DISCONNECTED), 0);
    assert_int_equal(expect_event(p.server.channel, RDMA_CM_EVENT_TIMEWAIT_EXIT), 0);
}

/* Completion thread of a program that reads flushed completions late. */
struct reader {
    struct side *side;
    pthread_t thread;
    atomic_bool waits;
    atomic_uint flushed;
};

static void *read_flushed(void *argument)
{
    struct reader *reader = argument;
    struct ibv_cq *cq = NULL;
    void *context = NULL;
    atomic_store(&reader->waits, true);
    assert_int_equal(ibv_get_cq_event(reader->side->completions, &cq, &context), 0);
    ibv_ack_cq_events(cq, 1);
    usleep(5000);
    for (; atomic_load(&reader->flushed) < 2; atomic_fetch_add(&reader->flushed, 1))
        assert_int_equal(next_completion(cq).status, IBV_WC_WR_FLUSH_ERR);
    return NULL;
}

static void start_reader(struct reader *reader, struct side *side)
{
    *reader = (struct reader){.side = side};
    for (unsigned i = 1; i <= 2; ++i)
        assert_int_equal(post_receive(side, i, 0, 64), 0);
    assert_int_equal(ibv_req_notify_cq(side->cq, 0), 0);
    assert_int_equal(pthread_create(&reader->thread, NULL, read_flushed, reader), 0);
    while (!atomic_load(&reader->waits))
        usleep(100);
    usleep(1000);
}

/* Returns true if the round has shown that the event comes after the completions. */
static bool comes_after_flushed(struct reader *reader, long start, enum rdma_cm_event_type type)
{
    assert_int_equal(rdma_ack_cm_event(next_event(reader->side->channel, type)), 0);
    const unsigned flushed = atomic_load(&reader->flushed);
    const bool decided = now_ms() - start < decisive_ms;
    assert_int_equal(pthread_join(reader->thread, NULL), 0);
    assert_true(flushed == 2 || !decided);
    return decided;
}

static bool disconnect_reader(void)
{
    OPEN_PAIR(p, NULL);
    struct reader reader;
    start_reader(&reader, &p.client);
    const long start = now_ms();
    assert_int_equal(rdma_disconnect(p.client.id), 0);
    assert_int_equal(expect_event(p.server.channel, RDMA_CM_EVENT_DISCONNECTED), 0);
    assert_int_equal(rdma_disconnect(p.server.id), 0);
    return comes_after_flushed(&reader, start, RDMA_CM_EVENT_DISCONNECTED);
}

DEFINE_TEST(the_end_of_a_connection_waits_for_flushed_completions, NULL, NULL)
{
    repeat_until_decided(disconnect_reader);
}

static bool reject_reader(void)
{
    PAIR p = {0};
    struct reader reader;
    open_listener(&p, "127.0.0.1");
    resolve_client(&p, NULL);
    start_reader(&reader, &p.client);
    connect_client(&p, NULL);
    struct rdma_cm_event *request = take_request(&p);
    const long start = now_ms();
    assert_int_equal(rdma_reject(p.server.id, NULL, 0), 0);
    assert_int_equal(rdma_ack_cm_event(request), 0);
    return comes_after_flushed(&reader, start, RDMA_CM_EVENT_REJECTED);
}

DEFINE_TEST(a_rejection_waits_for_flushed_completions, NULL, NULL)
{
    repeat_until_decided(reject_reader);
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
    expect_unreadable(context->async_fd, 50); /* a full queue has not overflowed */
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
    expect_unreadable(context->async_fd, 50);
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
    expect_unreadable(context->async_fd, 50);
    assert_int_equal(query(p->client.qp, IBV_QP_STATE).sq_draining, 1);
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
