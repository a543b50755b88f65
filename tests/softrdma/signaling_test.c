/* SPDX-License-Identifier: BSD-3-Clause */
/* Several clients send to one completion queue, for whose event the server waits. One client is stopped or killed at
 * each instruction of a request; the server must get an event for the next message of another client. TEST_KILL_ROUNDS:
 * number of instructions at which to stop and to kill (default 40 each). */
#include "remote.h"

#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

enum {
    healthy,
    victim,
    clients,
    receives = 8, /* receives of each client */
    entries = 12, /* below the maximum need, so that senders count the entries */
    warm_up = 4,  /* messages before the first request that is single-stepped */
    default_rounds = 40,
    marker = SIGUSR1, /* raised by the victim before and after that request; the tracer suppresses it */
};

static struct shared {
    _Atomic uint16_t port; /* network byte order */
    atomic_bool waits;     /* the server has armed its queue and waits */
    atomic_uint requested; /* number of messages that the healthy client must send */
    atomic_uint received[clients];
    _Atomic pid_t traced; /* the victim; an untraced process would be killed by the marker */
} * shared;

static bool receives_are_shared;

struct receive {
    const struct receives *among;
    uint32_t sender; /* the message */
};

/* Receives of one client, or of all clients. */
struct receives {
    struct ibv_qp *qp;
    struct ibv_srq *srq;
    struct ibv_mr *mr;
    struct receive each[receives];
};

static void post_one(struct receive *to)
{
    struct ibv_sge sge = {.addr = (uintptr_t)&to->sender, .length = sizeof(to->sender), .lkey = to->among->mr->lkey};
    struct ibv_recv_wr wr = {.wr_id = (uintptr_t)to, .sg_list = &sge, .num_sge = 1}, *bad = NULL;
    if (to->among->srq != NULL)
        assert_int_equal(ibv_post_srq_recv(to->among->srq, &wr, &bad), 0);
    else
        (void)ibv_post_recv(to->among->qp, &wr, &bad); /* rejected if the client of the queue pair was killed */
}

static struct receives *post_receives(struct ibv_pd *pd, struct ibv_qp *qp, struct ibv_srq *srq)
{
    struct receives *created = calloc(1, sizeof(*created));
    assert_non_null(created);
    *created = (struct receives){.qp = qp, .srq = srq, .mr = create_mr(pd, created, sizeof(*created), everything)};
    for (unsigned i = 0; i < (srq != NULL ? 1 : receives); ++i) {
        created->each[i].among = created;
        post_one(&created->each[i]);
    }
    return created;
}

static void open_queues(struct pair *p, struct ibv_context *context)
{
    struct side *s = &p->server;
    s->pd = ibv_alloc_pd(context);
    s->completions = ibv_create_comp_channel(context);
    s->cq = ibv_create_cq(context, entries, NULL, s->completions, 0);
    assert_non_null(s->cq);
    assert_int_equal(ibv_req_notify_cq(s->cq, 0), 0);
    if (!receives_are_shared)
        return;
    p->srq = create_srq(s->pd, 1);
    post_receives(s->pd, NULL, p->srq);
}

static void accept_client(struct pair *p, struct rdma_cm_id *id)
{
    if (p->server.cq == NULL)
        open_queues(p, id->verbs);
    struct ibv_qp_init_attr attr = {.send_cq = p->server.cq,
            .recv_cq = p->server.cq,
            .srq = p->srq,
            .qp_type = IBV_QPT_RC,
            .cap = {.max_send_wr = 1, .max_recv_wr = receives, .max_send_sge = 1, .max_recv_sge = 1}};
    assert_int_equal(rdma_create_qp(id, p->server.pd, &attr), 0);
    id->context = receives_are_shared ? NULL : post_receives(p->server.pd, id->qp, NULL);
    struct rdma_conn_param param = {.responder_resources = 1, .initiator_depth = 1, .rnr_retry_count = 7};
    assert_int_equal(rdma_accept(id, &param), 0);
}

static void forget_client(struct rdma_cm_id *id)
{
    struct receives *own = id->context;
    rdma_destroy_qp(id);
    assert_int_equal(rdma_destroy_id(id), 0);
    if (own != NULL)
        assert_int_equal(ibv_dereg_mr(own->mr), 0);
    free(own);
}

static void handle_connection(struct pair *p)
{
    struct rdma_cm_event *event = NULL;
    assert_int_equal(rdma_get_cm_event(p->listen_channel, &event), 0);
    struct rdma_cm_id *id = event->id;
    const enum rdma_cm_event_type type = event->event;
    if (type == RDMA_CM_EVENT_CONNECT_REQUEST)
        accept_client(p, id);
    assert_int_equal(rdma_ack_cm_event(event), 0);
    if (type == RDMA_CM_EVENT_DISCONNECTED)
        forget_client(id);
}

/* The descriptor is readable, so the first call must not block. */
static void handle_completions(struct side *s)
{
    struct ibv_wc wc;
    struct ibv_cq *cq = take_cq_event(s->completions);
    assert_int_equal(ibv_req_notify_cq(cq, 0), 0);
    while (ibv_poll_cq(cq, 1, &wc) == 1) {
        struct receive *at = (struct receive *)(uintptr_t)wc.wr_id;
        const uint32_t sender = at->sender;
        post_one(at);
        if (wc.status == IBV_WC_SUCCESS)
            atomic_fetch_add(&shared->received[sender], 1);
    }
}

static void serve(int unused)
{
    struct pair p = {0};
    open_listener(&p, "127.0.0.1");
    atomic_store(&shared->port, rdma_get_src_port(p.listener));
    for (;;) {
        struct pollfd ready[] = {
                {.fd = p.listen_channel->fd, .events = POLLIN},
                {.fd = p.server.cq != NULL ? p.server.completions->fd : -1, .events = POLLIN},
        };
        atomic_store(&shared->waits, true);
        assert_true(poll(ready, 2, -1) > 0);
        atomic_store(&shared->waits, false);
        if (ready[1].revents != 0)
            handle_completions(&p.server);
        if (ready[0].revents != 0)
            handle_connection(&p);
    }
}

static void send_own_number(struct side *client, uint32_t sender)
{
    memcpy(client->memory, &sender, sizeof(sender));
    assert_int_equal(post(client, IBV_WR_SEND, sender, 0, sizeof(sender), NULL, 0, IBV_SEND_INLINE), 0);
}

static void send_when_asked(int unused)
{
    struct remote r = {.ack_timeout = no_ack_timeout};
    call_server(&r, shared->port);
    for (unsigned sent = 0;; ++sent) {
        while (atomic_load(&shared->requested) == sent)
            usleep(100);
        send_own_number(&r.pair.client, healthy);
        expect_completion(r.pair.client.cq, healthy, IBV_WC_SUCCESS);
    }
}

static void send_between_markers(int unused)
{
    struct remote r = {.ack_timeout = no_ack_timeout};
    AWAIT(atomic_load(&shared->traced) == getpid());
    call_server(&r, shared->port);
    for (unsigned i = 0;; ++i) {
        const unsigned before = atomic_load(&shared->received[victim]);
        AWAIT(atomic_load(&shared->waits));
        if (i >= warm_up)
            raise(marker);
        send_own_number(&r.pair.client, victim);
        if (i >= warm_up)
            raise(marker);
        expect_completion(r.pair.client.cq, victim, IBV_WC_SUCCESS);
        AWAIT(atomic_load(&shared->received[victim]) != before);
    }
}

/* Returns the signal that stopped the victim. */
static int next_stop(pid_t pid)
{
    int status = 0;
    assert_int_equal(waitpid(pid, &status, __WALL), pid);
    assert_true(WIFSTOPPED(status));
    return WSTOPSIG(status);
}

static void run_to_marker(pid_t pid)
{
    int number = 0;
    do {
        assert_int_equal(ptrace(PTRACE_CONT, pid, NULL, (long)number), 0);
        number = next_stop(pid);
    } while (number != marker);
}

/* Returns a victim that has stopped before the request. Its other threads do not run then. */
static pid_t start_victim(void)
{
    const pid_t pid = start_child(send_between_markers).pid;
    assert_int_equal(ptrace(PTRACE_SEIZE, pid, NULL, NULL), 0);
    atomic_store(&shared->traced, pid);
    assert_int_equal(next_stop(pid), marker);
    return pid;
}

/* Executes up to `count` instructions of the request and returns their number. A system call counts as one. */
static unsigned step(pid_t pid, unsigned count)
{
    for (unsigned i = 0; i < count; ++i) {
        assert_int_equal(ptrace(PTRACE_SINGLESTEP, pid, NULL, 0L), 0);
        const int number = next_stop(pid);
        if (number == marker)
            return i;
        assert_int_equal(number, SIGTRAP);
    }
    return count;
}

static void expect_server_receives(void)
{
    const unsigned before = atomic_load(&shared->received[healthy]);
    AWAIT(atomic_load(&shared->waits));
    atomic_fetch_add(&shared->requested, 1);
    AWAIT(atomic_load(&shared->received[healthy]) != before);
}

static unsigned rounds(void)
{
    return number_from("TEST_KILL_ROUNDS", default_rounds);
}

struct processes {
    pid_t server;
    pid_t client;
    pid_t victim;
};

static struct processes start_processes(bool shared_receives)
{
    receives_are_shared = shared_receives;
    shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(shared, MAP_FAILED);
    struct processes p = {.server = start_child(serve).pid};
    AWAIT(atomic_load(&shared->port) != 0);
    p.client = start_child(send_when_asked).pid;
    p.victim = start_victim();
    expect_server_receives();
    return p;
}

static void end_processes(const struct processes *p)
{
    kill_child(p->victim);
    kill_child(p->client);
    kill_child(p->server);
    munmap(shared, sizeof(*shared));
}

static unsigned count_instructions(pid_t pid)
{
    const unsigned count = step(pid, UINT32_MAX);
    print_message("%u of %u instructions\n", rounds(), count);
    run_to_marker(pid);
    return count;
}

static void interrupt_between_instructions(bool shared_receives, bool kills)
{
    struct processes p = start_processes(shared_receives);
    const unsigned instructions = count_instructions(p.victim);
    for (unsigned i = 0; i < rounds(); ++i) {
        step(p.victim, (unsigned)((uint64_t)instructions * i / rounds()));
        if (kills)
            kill_child(p.victim);
        expect_server_receives();
        if (kills) {
            p.victim = start_victim();
        } else {
            run_to_marker(p.victim); /* to the end of its request; the next marker follows the acknowledgment */
            run_to_marker(p.victim);
        }
    }
    end_processes(&p);
}

TEST(a_stopped_sender_does_not_delay_events_of_others)
{
    interrupt_between_instructions(false, false);
    interrupt_between_instructions(true, false);
}

TEST(a_killed_sender_does_not_delay_events_of_others)
{
    interrupt_between_instructions(false, true);
    interrupt_between_instructions(true, true);
}
