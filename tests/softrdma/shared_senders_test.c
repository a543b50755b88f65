/* SPDX-License-Identifier: BSD-3-Clause */
/* Several processes send to queue pairs that share a receive queue. Every message arrives complete, in the order of its
 * sender, and no receive is lost while senders are stopped and continued, or killed and replaced. TEST_KILL_ROUNDS:
 * number of kills (default 20). TEST_SEED: seed of their times. */
#include "remote.h"

#include <signal.h>
#include <stdio.h>
#include <time.h>

enum {
    senders = 8,
    receives = 32, /* number of receives in the shared queue */
    longest = 20480,
    window = 4, /* outstanding messages of a sender */
    stops = 20,
    silence_limit_s = 120,
};

/* Instructions for a sender. It sends `count` messages, or until it is killed if `count` is 0. */
struct order {
    uint16_t port; /* network byte order */
    uint32_t index;
    uint32_t count;
    uint32_t stops_parent_each; /* interval in messages, or 0 (never) */
};

struct header {
    uint32_t index;
    uint32_t sequence;
};

/* State of a sender in the receiver process. */
struct sender {
    struct child child;
    struct side side;
    uint32_t index;
    uint32_t sequence; /* expected in its next message */
};

struct receiver {
    struct pair listening;
    struct side lender; /* provides the protection domain and the memory */
    struct ibv_srq *srq;
    struct sender of[senders];
    unsigned seed;
};

static size_t length_of(const struct header *h)
{
    static const size_t lengths[] = {sizeof(struct header), 64, 200, 1000, 5000, 64, 12000, 300, 20000};
    return lengths[(h->index + h->sequence) % (sizeof(lengths) / sizeof(lengths[0]))];
}

static void make_message(uint8_t *at, const struct header *h)
{
    fill(at, length_of(h), h->index * 31 + h->sequence);
    memcpy(at, h, sizeof(*h));
}

static void stop_parent_for_a_moment(void)
{
    assert_int_equal(kill(getppid(), SIGSTOP), 0);
    usleep(20000);
    assert_int_equal(kill(getppid(), SIGCONT), 0);
}

static void follow_order(int in)
{
    struct order o;
    struct remote r = {.size = (size_t)window * longest, .ack_timeout = no_ack_timeout};
    assert_int_equal(read(in, &o, sizeof(o)), sizeof(o));
    call_server(&r, o.port);
    struct side *c = &r.pair.client;
    uint32_t sent = 0;
    for (; o.count == 0 || sent < o.count; ++sent) {
        const struct header h = {.index = o.index, .sequence = sent};
        const size_t offset = (size_t)(sent % window) * longest;
        if (sent >= window)
            expect_completion(c->cq, sent - window, IBV_WC_SUCCESS);
        make_message(c->memory + offset, &h);
        if (o.stops_parent_each != 0 && sent % o.stops_parent_each == o.stops_parent_each - 1)
            stop_parent_for_a_moment();
        const enum ibv_wr_opcode opcode = sent % 3 == 0 ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND;
        assert_int_equal(post(c, opcode, sent, offset, length_of(&h), NULL, 0, 0), 0);
    }
    for (uint32_t i = sent - window; i != sent; ++i)
        expect_completion(c->cq, i, IBV_WC_SUCCESS);
    assert_int_equal(rdma_disconnect(c->id), 0);
    (void)expect_event(c->channel, RDMA_CM_EVENT_DISCONNECTED); /* the receiver may acknowledge late */
    close_pair(&r.pair);
}

static int post_shared(struct receiver *r, uint64_t number)
{
    return post_shared_receive(r->srq, &r->lender, number, number * longest, longest);
}

static void make_queue(struct receiver *r, struct ibv_context *verbs)
{
    struct side *l = &r->lender;
    l->size = (size_t)receives * longest;
    l->memory = calloc(1, l->size);
    l->pd = ibv_alloc_pd(verbs);
    assert_non_null(l->pd);
    l->mr = create_mr(l->pd, l->memory, l->size, IBV_ACCESS_LOCAL_WRITE);
    r->srq = create_srq(l->pd, receives);
    for (uint64_t i = 0; i < receives; ++i)
        assert_int_equal(post_shared(r, i), 0);
}

static void meet(struct receiver *r, struct sender *s, struct child child, struct order o)
{
    o.port = rdma_get_src_port(r->listening.listener);
    *s = (struct sender){.child = child, .index = o.index};
    assert_int_equal(write(child.out, &o, sizeof(o)), sizeof(o));
    close(child.out);
    struct rdma_cm_event *request = take_request(&r->listening);
    s->side.id = r->listening.server.id;
    r->listening.server.id = NULL;
    if (r->srq == NULL)
        make_queue(r, s->side.id->verbs);
    create_queues(&s->side, r->srq, &(struct options){.lender = &r->lender}, true);
    assert_int_equal(rdma_ack_cm_event(request), 0);
    struct rdma_conn_param param = {.retry_count = 7, .rnr_retry_count = 7};
    assert_int_equal(rdma_accept(s->side.id, &param), 0);
    assert_int_equal(expect_event(r->listening.listen_channel, RDMA_CM_EVENT_ESTABLISHED), 0);
}

/* Returns false if no message is available. */
static bool take_message(struct receiver *r, struct sender *s, bool reposts)
{
    static uint8_t expected[longest];
    struct ibv_wc wc;
    const int count = ibv_poll_cq(s->side.cq, 1, &wc);
    if (count == 0)
        return false;
    assert_int_equal(count, 1);
    assert_int_equal(wc.status, IBV_WC_SUCCESS);
    const struct header h = {.index = s->index, .sequence = s->sequence++};
    assert_int_equal(wc.byte_len, length_of(&h));
    assert_int_equal(wc.qp_num, s->side.qp->qp_num);
    assert_int_equal(wc.wc_flags & IBV_WC_WITH_IMM, h.sequence % 3 == 0 ? IBV_WC_WITH_IMM : 0);
    make_message(expected, &h);
    assert_memory_equal(r->lender.memory + wc.wr_id * longest, expected, wc.byte_len);
    if (reposts)
        assert_int_equal(post_shared(r, wc.wr_id), 0);
    return true;
}

static void take_messages(struct receiver *r, unsigned count)
{
    const time_t end = time(NULL) + silence_limit_s;
    while (count > 0) {
        assert_true(time(NULL) < end);
        for (unsigned i = 0; i < senders; ++i)
            count -= count > 0 && r->of[i].side.cq != NULL && take_message(r, &r->of[i], true);
    }
}

/* Receives the remaining messages of a sender that has exited, and disconnects. */
static void part(struct receiver *r, bool reposts)
{
    struct rdma_cm_event *event = next_event(r->listening.listen_channel, RDMA_CM_EVENT_DISCONNECTED);
    struct sender *s = r->of;
    while (s->side.id != event->id)
        ++s;
    assert_int_equal(rdma_ack_cm_event(event), 0);
    (void)rdma_disconnect(s->side.id); /* the peer may have exited */
    while (take_message(r, s, reposts))
        ;
    close_side(&s->side);
    s->side = (struct side){0};
}

static void kill_sender(struct receiver *r, struct sender *s)
{
    kill_child(s->child.pid);
    part(r, true);
}

static void start(struct receiver *r)
{
    *r = (struct receiver){.seed = number_from("TEST_SEED", (unsigned)getpid())};
    fprintf(stderr, "TEST_SEED=%u\n", r->seed);
}

/* Checks that no receive is lost: exactly `receives` messages are received. */
static void finish(struct receiver *r, struct child last)
{
    struct sender *s = &r->of[0];
    meet(r, s, last, (struct order){.index = 99, .count = receives});
    const time_t end = time(NULL) + silence_limit_s;
    while (s->sequence < receives) {
        assert_true(time(NULL) < end);
        take_message(r, s, false);
    }
    part(r, false);
    assert_int_equal(exit_code_of(last.pid), 0);
    for (uint64_t i = 0; i < receives; ++i)
        assert_int_equal(post_shared(r, i), 0);
    assert_int_equal(post_shared(r, 0), ENOMEM);
    assert_int_equal(ibv_destroy_srq(r->srq), 0);
    assert_int_equal(ibv_dereg_mr(r->lender.mr), 0);
    assert_int_equal(ibv_dealloc_pd(r->lender.pd), 0);
    free(r->lender.memory);
    close_pair(&r->listening);
}

TEST_IN_OWN_PROCESS(messages_arrive_in_order_while_either_side_is_stopped)
{
    enum {
        messages = 1000
    };
    struct child children[senders + 1];
    for (unsigned i = 0; i < senders + 1; ++i)
        children[i] = start_child(follow_order);
    struct receiver r;
    start(&r);
    open_listener(&r.listening, "127.0.0.1");
    for (unsigned i = 0; i < senders; ++i)
        meet(&r, &r.of[i], children[i],
                (struct order){.index = i, .count = messages, .stops_parent_each = i == 0 ? 300 : 0});
    for (unsigned i = 0; i < stops; ++i) {
        /* Excludes the first sender, which stops this process: no process would continue either of them. */
        const pid_t stopped = children[1 + (unsigned)rand_r(&r.seed) % (senders - 1)].pid;
        assert_int_equal(kill(stopped, SIGSTOP), 0);
        take_messages(&r, 100);
        assert_int_equal(kill(stopped, SIGCONT), 0);
    }
    take_messages(&r, senders * messages - stops * 100);
    for (unsigned i = 0; i < senders; ++i)
        part(&r, true);
    for (unsigned i = 0; i < senders; ++i)
        assert_int_equal(exit_code_of(children[i].pid), 0);
    finish(&r, children[senders]);
}

TEST_IN_OWN_PROCESS(killed_senders_lose_no_receive)
{
    const unsigned rounds = number_from("TEST_KILL_ROUNDS", 20), count = senders + rounds + 1;
    struct child *children = calloc(count, sizeof(*children));
    assert_non_null(children);
    for (unsigned i = 0; i < count; ++i)
        children[i] = start_child(follow_order);
    struct receiver r;
    start(&r);
    open_listener(&r.listening, "127.0.0.1");
    for (unsigned i = 0; i < senders; ++i)
        meet(&r, &r.of[i], children[i], (struct order){.index = i});
    for (unsigned round = 0; round < rounds; ++round) {
        struct sender *s = &r.of[(unsigned)rand_r(&r.seed) % senders];
        take_messages(&r, (unsigned)rand_r(&r.seed) % 300);
        kill_sender(&r, s);
        meet(&r, s, children[senders + round], (struct order){.index = senders + round});
    }
    take_messages(&r, 300);
    for (unsigned i = 0; i < senders; ++i)
        kill_sender(&r, &r.of[i]);
    finish(&r, children[count - 1]);
    free(children);
}
