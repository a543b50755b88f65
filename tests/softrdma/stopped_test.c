/* SPDX-License-Identifier: BSD-3-Clause */
/* Destruction of queue pairs and regions while a peer is stopped in the middle of an operation. */
#include "stopped_peer.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <unistd.h>

/* Accepts a peer with one receive. `file` is memory that both processes map, or NULL for private memory. */
static void admit(const struct peer *peer, struct pair *p, uint8_t *file)
{
    accept_peer(peer, p, &(struct options){.size = size, .server_memory = file});
    order(peer, &(struct order){.addr = (uintptr_t)p->server.memory, .rkey = p->server.mr->rkey});
}

/* Starts a peer, and returns it when its action has stopped it. */
static struct peer admit_stopped(void (*act)(struct remote *r), struct pair *p, uint8_t *file)
{
    const struct peer peer = start_peer(act);
    admit(&peer, p, file);
    expect_stopped(&peer);
    return peer;
}

TEST_IN_OWN_PROCESS(a_message_to_a_deleted_connection_reaches_no_other_connection)
{
    const struct peer old = start_peer(stop_then_send), fresh = start_peer(wait_forever);
    struct pair first, second;
    admit(&old, &first, NULL);
    expect_stopped(&old);
    rdma_destroy_qp(first.server.id);
    assert_int_equal(rdma_destroy_id(first.server.id), 0); /* the next connection reuses its shared memory */
    admit(&fresh, &second, NULL);
    assert_int_equal(continue_peer(&old), ends_badly);
    expect_nothing(&second);
    kill(fresh.pid, SIGKILL);
}

TEST_IN_OWN_PROCESS(a_message_to_a_reset_queue_pair_does_not_arrive)
{
    struct pair p;
    const struct peer old = admit_stopped(stop_then_send, &p, NULL);
    struct ibv_qp_attr attr = connection_to(p.server.id->verbs, p.server.qp->qp_num + 0x100);
    to_reset(p.server.qp);
    to_init(p.server.qp);
    assert_int_equal(post_receive(&p.server, 8, 0, message), 0);
    assert_int_equal(modify_to_rtr(p.server.qp, &attr), 0);
    assert_int_equal(continue_peer(&old), ends_badly);
    expect_nothing(&p);
}

TEST_IN_OWN_PROCESS(a_queue_pair_is_busy_while_its_peer_may_store)
{
    struct pair p;
    const struct peer peer = admit_stopped(send_stopped, &p, NULL);
    struct ibv_qp *qp = p.server.qp;
    assert_int_equal(ibv_destroy_qp(qp), EBUSY);
    assert_int_equal(qp->state, IBV_QPS_ERR);
    assert_int_equal(enter_state(qp, IBV_QPS_RESET), EBUSY);
    expect_nothing(&p); /* the receive is not flushed yet */
    const int end = continue_peer(&peer);
    expect_completion(p.server.cq, 7, end == ends_well ? IBV_WC_SUCCESS : IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(p.server.memory[message - 1], end == ends_well ? sent : before);
    assert_int_equal(ibv_destroy_qp(qp), 0);
}

/* The queue pair enters the error state immediately. The receive completes once the peer can no longer store to it. */
TEST_IN_OWN_PROCESS(a_receive_is_flushed_when_its_peer_can_no_longer_store)
{
    struct pair p;
    const struct peer peer = admit_stopped(send_stopped, &p, NULL);
    assert_int_equal(enter_state(p.server.qp, IBV_QPS_ERR), 0);
    assert_int_equal(post_receive(&p.server, 9, 0, message), 0);
    expect_nothing(&p);
    kill(peer.pid, SIGKILL);
    expect_completion(p.server.cq, 7, IBV_WC_WR_FLUSH_ERR);
    expect_completion(p.server.cq, 9, IBV_WC_WR_FLUSH_ERR);
    expect_memory_unchanged(&p);
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

TEST_IN_OWN_PROCESS(a_region_is_busy_while_a_peer_may_store)
{
    struct pair p, other;
    pthread_t thread;
    const struct peer peer = admit_stopped(write_stopped, &p, map_open_file());
    struct deregistration d = {.mr = p.server.mr};
    assert_int_equal(pthread_create(&thread, NULL, deregister, &d), 0);
    open_pair(&other, NULL); /* other threads are not blocked */
    close_pair(&other);
    assert_false(d.over);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(d.result, EBUSY);
    continue_peer(&peer);
    clear_memory(&p);
    assert_int_equal(ibv_dereg_mr(p.server.mr), 0);
    usleep(50000);
    expect_memory_unchanged(&p);
}

TEST_IN_OWN_PROCESS(a_region_is_deregistered_when_its_peer_is_killed)
{
    struct pair p;
    pthread_t thread;
    const struct peer peer = admit_stopped(write_stopped, &p, map_open_file());
    struct deregistration d = {.mr = p.server.mr};
    assert_int_equal(pthread_create(&thread, NULL, deregister, &d), 0);
    usleep(200000);
    assert_false(d.over);
    kill(peer.pid, SIGKILL);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(d.result, 0);
}
