/* SPDX-License-Identifier: BSD-3-Clause */
/* A peer that is stopped while it executes a request in this process' memory. The request runs into a page that may not
 * be read, between the peer's last look at what this process shares and its store, and the handler of that signal stops
 * the peer there. */
#include "remote.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    page = 4096,
    size = 16 * page,
    message = 128,
    before = 0x11, /* what memory holds until something arrives */
    sent = 0x77,   /* what the peer sends */
    ends_well = 2, /* how a peer ends whose last request succeeded */
    ends_badly = 3,
};

/* What the peer is told: whom to call, then where to write. */
struct order {
    uint16_t port; /* network order */
    uint64_t addr;
    uint32_t rkey;
};

struct peer {
    pid_t pid;
    int tell;
};

/* Asked by the leak detector of sanitized builds: each of these processes ends in the middle of a connection. */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return 1;
}

static uint8_t *trap; /* of the peer: the page of its buffer that cannot be read yet */

static void stop_and_go_on(int number)
{
    (void)number;
    raise(SIGSTOP);
    mprotect(trap, page, PROT_READ | PROT_WRITE);
}

static void take_order(int from, struct order *order)
{
    if (read(from, order, sizeof(*order)) != sizeof(*order))
        _exit(1);
}

static void end_with(struct remote *r)
{
    struct ibv_wc wc = next_completion(r->pair.client.cq);
    _exit(wc.status == IBV_WC_SUCCESS ? ends_well : ends_badly);
}

/* A message of which the second half is in that page. */
static size_t set_trap(struct side *own)
{
    const uintptr_t end = (uintptr_t)own->memory + 8 * page;
    trap = (uint8_t *)(end - end % page);
    memset(own->memory, sent, own->size);
    signal(SIGSEGV, stop_and_go_on);
    assert_int_equal(mprotect(trap, page, PROT_NONE), 0);
    return (size_t)(trap - own->memory) - message / 2;
}

static void send_stopped(struct remote *r)
{
    const size_t at = set_trap(&r->pair.client);
    assert_int_equal(post(&r->pair.client, IBV_WR_SEND, 1, at, message, NULL, 0, 0), 0);
    end_with(r);
}

/* The file behind the target is there after the first request, at the latest. */
static void write_stopped(struct remote *r)
{
    for (unsigned i = 0; i < 2; ++i, usleep(200000)) {
        assert_int_equal(post(&r->pair.client, IBV_WR_RDMA_WRITE, 0, 0, 8, &r->target, page, 0), 0);
        expect_completion(r->pair.client.cq, 0, IBV_WC_SUCCESS);
    }
    const size_t at = set_trap(&r->pair.client);
    assert_int_equal(post(&r->pair.client, IBV_WR_RDMA_WRITE, 1, at, message, &r->target, 0, 0), 0);
    end_with(r);
}

/* Outside of every operation. */
static void stop_then_send(struct remote *r)
{
    memset(r->pair.client.memory, sent, r->pair.client.size);
    raise(SIGSTOP);
    if (post(&r->pair.client, IBV_WR_SEND, 1, 0, 64, NULL, 0, 0) != 0)
        _exit(ends_badly);
    end_with(r);
}

static void wait_for_the_end(struct remote *r)
{
    (void)r;
    for (;;)
        pause();
}

static struct peer start_peer(void (*act)(struct remote *r))
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    const struct peer p = {.pid = fork(), .tell = ends[1]};
    assert_true(p.pid >= 0);
    if (p.pid != 0) {
        close(ends[0]);
        return p;
    }
    close(ends[1]);
    struct order order;
    struct remote r = {.size = size};
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    take_order(ends[0], &order);
    call_server(&r, order.port);
    take_order(ends[0], &order);
    r.mr.rkey = order.rkey;
    r.target = (struct side){.memory = (uint8_t *)(uintptr_t)order.addr, .mr = &r.mr};
    act(&r);
    _exit(1);
}

static void order(const struct peer *peer, const struct order *what)
{
    assert_int_equal(write(peer->tell, what, sizeof(*what)), sizeof(*what));
}

static void let_in(const struct peer *peer, struct pair *p, const struct options *options)
{
    memset(p, 0, sizeof(*p));
    open_listener(p, "127.0.0.1");
    order(peer, &(struct order){.port = rdma_get_src_port(p->listener)});
    struct rdma_cm_event *request = take_request(p);
    create_queues(&p->server, NULL, options, true);
    memset(p->server.memory, before, size);
    assert_int_equal(post_receive(&p->server, 7, 0, message), 0);
    assert_int_equal(rdma_ack_cm_event(request), 0);
    struct rdma_conn_param param = {.responder_resources = 16, .initiator_depth = 16, .rnr_retry_count = 7};
    assert_int_equal(rdma_accept(p->server.id, &param), 0);
    assert_int_equal(expect_event(p->listen_channel, RDMA_CM_EVENT_ESTABLISHED), 0);
}

/* With one receive for a message, which peers place in private memory only, or memory that is a file, which both map.
 */
static void admit(const struct peer *peer, struct pair *p, uint8_t *file)
{
    let_in(peer, p, &(struct options){.size = size, .server_memory = file});
    order(peer, &(struct order){.addr = (uintptr_t)p->server.memory, .rkey = p->server.mr->rkey});
}

/* It writes through a window, to a file; returns that. */
static struct ibv_mw *admit_to_window(const struct peer *peer, struct pair *p, enum ibv_mw_type type)
{
    let_in(peer, p,
            &(struct options){.size = size,
                    .server_memory = map_file(size, MAP_SHARED, NULL),
                    .server_access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_MW_BIND});
    struct ibv_mw *mw = ibv_alloc_mw(p->server.pd, type);
    assert_non_null(mw);
    const struct ibv_mw_bind_info info = {.mr = p->server.mr,
            .addr = (uintptr_t)p->server.memory,
            .length = size,
            .mw_access_flags = IBV_ACCESS_REMOTE_WRITE};
    if (type == IBV_MW_TYPE_1) {
        struct ibv_mw_bind bind = {.wr_id = 1, .send_flags = IBV_SEND_SIGNALED, .bind_info = info};
        assert_int_equal(ibv_bind_mw(p->server.qp, mw, &bind), 0);
    } else {
        struct ibv_send_wr wr = {.wr_id = 1, .opcode = IBV_WR_BIND_MW, .send_flags = IBV_SEND_SIGNALED}, *bad = NULL;
        wr.bind_mw.mw = mw;
        wr.bind_mw.rkey = mw->rkey = ibv_inc_rkey(mw->rkey);
        wr.bind_mw.bind_info = info;
        assert_int_equal(ibv_post_send(p->server.qp, &wr, &bad), 0);
    }
    expect_completion(p->server.cq, 1, IBV_WC_SUCCESS);
    order(peer, &(struct order){.addr = (uintptr_t)p->server.memory, .rkey = mw->rkey});
    return mw;
}

static void expect_stopped(const struct peer *peer)
{
    int status = 0;
    assert_int_equal(waitpid(peer->pid, &status, WUNTRACED), peer->pid);
    assert_true(WIFSTOPPED(status));
}

static int end_of(const struct peer *peer)
{
    int status = 0;
    assert_int_equal(waitpid(peer->pid, &status, 0), peer->pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int let_it_go_on(const struct peer *peer)
{
    assert_int_equal(kill(peer->pid, SIGCONT), 0);
    return end_of(peer);
}

/* That the peer stands still keeps this and what arrives afterwards apart, which ThreadSanitizer does not see. */
__attribute__((no_sanitize("thread"))) static void expect_no_byte(const struct pair *p)
{
    for (size_t i = 0; i < size; ++i)
        assert_int_equal(p->server.memory[i], before);
}

static void expect_nothing(struct pair *p)
{
    struct ibv_wc wc;
    for (unsigned i = 0; i < 100; ++i, usleep(2000))
        assert_int_equal(ibv_poll_cq(p->server.cq, 1, &wc), 0);
    expect_no_byte(p);
}

static void a_message_to_a_deleted_connection_reaches_no_other(void)
{
    const struct peer old = start_peer(stop_then_send), fresh = start_peer(wait_for_the_end);
    struct pair first, second;
    admit(&old, &first, NULL);
    expect_stopped(&old);
    rdma_destroy_qp(first.server.id);
    assert_int_equal(rdma_destroy_id(first.server.id), 0); /* its shared memory is the next one's */
    admit(&fresh, &second, NULL);
    assert_int_equal(let_it_go_on(&old), ends_badly);
    expect_nothing(&second);
    kill(fresh.pid, SIGKILL);
}

static void a_message_to_a_reset_queue_pair_does_not_arrive(void)
{
    const struct peer old = start_peer(stop_then_send);
    struct pair p;
    admit(&old, &p, NULL);
    expect_stopped(&old);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RTR,
            .path_mtu = IBV_MTU_4096,
            .dest_qp_num = p.server.qp->qp_num + 0x100,
            .max_dest_rd_atomic = 1,
            .min_rnr_timer = 12,
            .ah_attr = {.port_num = 1}};
    to_reset(p.server.qp);
    to_init(p.server.qp);
    assert_int_equal(post_receive(&p.server, 8, 0, message), 0);
    assert_int_equal(ibv_modify_qp(p.server.qp, &attr,
                             IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                                     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER),
            0);
    assert_int_equal(let_it_go_on(&old), ends_badly);
    expect_nothing(&p);
}

static void a_queue_pair_is_not_given_back_while_its_peer_may_store(void)
{
    const struct peer peer = start_peer(send_stopped);
    struct pair p;
    admit(&peer, &p, NULL);
    expect_stopped(&peer);
    struct ibv_qp *qp = p.server.qp;
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_RESET};
    assert_int_equal(ibv_destroy_qp(qp), EBUSY);
    assert_int_equal(qp->state, IBV_QPS_ERR);
    assert_int_equal(ibv_modify_qp(qp, &attr, IBV_QP_STATE), EBUSY);
    expect_nothing(&p); /* the receive is not flushed either */
    const int end = let_it_go_on(&peer);
    expect_completion(p.server.cq, 7, end == ends_well ? IBV_WC_SUCCESS : IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(p.server.memory[message - 1], end == ends_well ? sent : before);
    assert_int_equal(ibv_destroy_qp(qp), 0);
}

/* The error state is entered at once, the receive comes back when nothing can be stored into it any more. */
static void a_receive_comes_back_when_its_peer_cannot_store_any_more(void)
{
    const struct peer peer = start_peer(send_stopped);
    struct pair p;
    admit(&peer, &p, NULL);
    expect_stopped(&peer);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    assert_int_equal(ibv_modify_qp(p.server.qp, &attr, IBV_QP_STATE), 0);
    assert_int_equal(post_receive(&p.server, 9, 0, message), 0);
    expect_nothing(&p);
    kill(peer.pid, SIGKILL);
    expect_completion(p.server.cq, 7, IBV_WC_WR_FLUSH_ERR);
    expect_completion(p.server.cq, 9, IBV_WC_WR_FLUSH_ERR);
    expect_no_byte(&p);
    assert_int_equal(ibv_destroy_qp(p.server.qp), 0);
}

struct deregistration {
    struct ibv_mr *mr;
    int result;
    atomic_bool over;
};

static void *deregister(void *argument)
{
    struct deregistration *d = argument;
    d->result = ibv_dereg_mr(d->mr);
    d->over = true;
    return NULL;
}

static void a_region_is_not_given_back_while_a_peer_may_store(void)
{
    const struct peer peer = start_peer(write_stopped);
    struct pair p, other;
    pthread_t thread;
    admit(&peer, &p, map_file(size, MAP_SHARED, NULL));
    expect_stopped(&peer);
    struct deregistration d = {.mr = p.server.mr};
    assert_int_equal(pthread_create(&thread, NULL, deregister, &d), 0);
    open_pair(&other, NULL); /* nobody else waits */
    close_pair(&other);
    assert_false(d.over);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(d.result, EBUSY);
    let_it_go_on(&peer);
    memset(p.server.memory, before, size);
    assert_int_equal(ibv_dereg_mr(p.server.mr), 0);
    usleep(50000);
    expect_no_byte(&p);
}

static void a_peer_that_is_killed_gives_the_region_back(void)
{
    const struct peer peer = start_peer(write_stopped);
    struct pair p;
    pthread_t thread;
    admit(&peer, &p, map_file(size, MAP_SHARED, NULL));
    expect_stopped(&peer);
    struct deregistration d = {.mr = p.server.mr};
    assert_int_equal(pthread_create(&thread, NULL, deregister, &d), 0);
    usleep(200000);
    assert_false(d.over);
    kill(peer.pid, SIGKILL);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(d.result, 0);
}

static void invalidate(struct pair *p, struct ibv_mw *mw)
{
    struct ibv_send_wr wr = {.wr_id = 2,
                               .opcode = IBV_WR_LOCAL_INV,
                               .send_flags = IBV_SEND_SIGNALED,
                               .invalidate_rkey = mw->rkey},
                       *bad = NULL;
    assert_int_equal(ibv_post_send(p->server.qp, &wr, &bad), 0);
}

/* Nothing says so before. Then the region can go, and nothing is written any more. */
static void a_window_is_not_invalid_while_a_peer_may_store(void)
{
    const struct peer peer = start_peer(write_stopped);
    struct pair p;
    struct ibv_mw *mw = admit_to_window(&peer, &p, IBV_MW_TYPE_2);
    expect_stopped(&peer);
    memset(p.server.memory, before, size);
    invalidate(&p, mw);
    expect_nothing(&p);
    assert_int_equal(ibv_dereg_mr(p.server.mr), EBUSY);
    expect_nothing(&p);
    const int end = let_it_go_on(&peer);
    expect_completion(p.server.cq, 2, IBV_WC_SUCCESS);
    assert_int_equal(p.server.memory[message - 1], end == ends_well ? sent : before);
    memset(p.server.memory, before, size);
    assert_int_equal(ibv_dereg_mr(p.server.mr), 0);
    usleep(50000);
    expect_no_byte(&p);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
}

static void a_window_of_type_1_is_not_unbound_while_a_peer_may_store(void)
{
    const struct peer peer = start_peer(write_stopped);
    struct pair p;
    struct ibv_mw *mw = admit_to_window(&peer, &p, IBV_MW_TYPE_1);
    expect_stopped(&peer);
    memset(p.server.memory, before, size);
    struct ibv_mw_bind nothing = {.wr_id = 2, .send_flags = IBV_SEND_SIGNALED};
    assert_int_equal(ibv_bind_mw(p.server.qp, mw, &nothing), 0);
    expect_nothing(&p);
    kill(peer.pid, SIGKILL);
    expect_completion(p.server.cq, 2, IBV_WC_SUCCESS);
    assert_int_equal(ibv_dereg_mr(p.server.mr), 0);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
}

/* The request that invalidates it is flushed, which says nothing of the window. */
static void a_window_is_not_given_back_while_a_peer_may_store(void)
{
    const struct peer peer = start_peer(write_stopped);
    struct pair p;
    struct ibv_mw *mw = admit_to_window(&peer, &p, IBV_MW_TYPE_2);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_ERR};
    expect_stopped(&peer);
    invalidate(&p, mw);
    assert_int_equal(ibv_modify_qp(p.server.qp, &attr, IBV_QP_STATE), 0);
    expect_completion(p.server.cq, 2, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(ibv_dealloc_mw(mw), EBUSY);
    assert_int_equal(ibv_dereg_mr(p.server.mr), EBUSY);
    let_it_go_on(&peer);
    memset(p.server.memory, before, size);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
    assert_int_equal(ibv_dereg_mr(p.server.mr), 0);
    usleep(50000);
    expect_no_byte(&p);
}

#define TEST_IN_OWN_PROCESS(test)                                                                                      \
    static void test_##test(void **state)                                                                              \
    {                                                                                                                  \
        (void)state;                                                                                                   \
        in_own_process(test);                                                                                          \
    }
TEST_IN_OWN_PROCESS(a_message_to_a_deleted_connection_reaches_no_other)
TEST_IN_OWN_PROCESS(a_message_to_a_reset_queue_pair_does_not_arrive)
TEST_IN_OWN_PROCESS(a_queue_pair_is_not_given_back_while_its_peer_may_store)
TEST_IN_OWN_PROCESS(a_receive_comes_back_when_its_peer_cannot_store_any_more)
TEST_IN_OWN_PROCESS(a_region_is_not_given_back_while_a_peer_may_store)
TEST_IN_OWN_PROCESS(a_peer_that_is_killed_gives_the_region_back)
TEST_IN_OWN_PROCESS(a_window_is_not_invalid_while_a_peer_may_store)
TEST_IN_OWN_PROCESS(a_window_of_type_1_is_not_unbound_while_a_peer_may_store)
TEST_IN_OWN_PROCESS(a_window_is_not_given_back_while_a_peer_may_store)

/* An argument names the only test to run. */
int main(int count, char **arguments)
{
    if (count > 1)
        cmocka_set_test_filter(arguments[1]);
    const struct CMUnitTest tests[] = {
            cmocka_unit_test(test_a_message_to_a_deleted_connection_reaches_no_other),
            cmocka_unit_test(test_a_message_to_a_reset_queue_pair_does_not_arrive),
            cmocka_unit_test(test_a_queue_pair_is_not_given_back_while_its_peer_may_store),
            cmocka_unit_test(test_a_receive_comes_back_when_its_peer_cannot_store_any_more),
            cmocka_unit_test(test_a_region_is_not_given_back_while_a_peer_may_store),
            cmocka_unit_test(test_a_peer_that_is_killed_gives_the_region_back),
            cmocka_unit_test(test_a_window_is_not_invalid_while_a_peer_may_store),
            cmocka_unit_test(test_a_window_of_type_1_is_not_unbound_while_a_peer_may_store),
            cmocka_unit_test(test_a_window_is_not_given_back_while_a_peer_may_store),
    };
    return cmocka_run_group_tests_name("stopped", tests, NULL, NULL);
}
