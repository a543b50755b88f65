/* SPDX-License-Identifier: BSD-3-Clause */
/* Destruction of queue pairs and regions, and invalidation of memory windows, while a peer is stopped in the middle of
 * a request to the memory of this process. The request reads an unreadable page after the peer's last check of shared
 * state and before its store. The SIGSEGV handler then stops the peer. */
#include "remote.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>

enum {
    page = 4096,
    size = 16 * page,
    message = 128,
    before = 0x11, /* contents of memory before the operation */
    sent = 0x77,   /* data that the peer sends */
    ends_well = 2, /* exit code of a peer whose last request succeeded */
    ends_badly = 3,
};

/* Disables the leak detector of sanitized builds, because each peer exits with an open connection. */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return 1;
}

static uint8_t *trap;         /* page of the peer's buffer without read permission */
static bool hangs_up = false; /* whether the peer closes its TCP connections before it stops */

static void hang_up(void)
{
    struct sockaddr_storage name;
    for (int fd = 3; fd < 1024; ++fd) {
        socklen_t len = sizeof(name);
        if (getpeername(fd, (struct sockaddr *)&name, &len) == 0 && name.ss_family == AF_INET)
            shutdown(fd, SHUT_RDWR);
    }
}

static void stop_until_continued(int number)
{
    if (hangs_up)
        hang_up();
    raise(SIGSTOP);
    mprotect(trap, page, PROT_READ | PROT_WRITE);
}

static void end_with(struct remote *r)
{
    struct ibv_wc wc = next_completion(r->pair.client.cq);
    _exit(wc.status == IBV_WC_SUCCESS ? ends_well : ends_badly);
}

/* Returns the offset of a message whose second half lies in that page. */
static size_t set_trap(struct side *own)
{
    const uintptr_t end = (uintptr_t)own->memory + 8 * page;
    trap = (uint8_t *)(end - end % page);
    memset(own->memory, sent, own->size);
    signal(SIGSEGV, stop_until_continued);
    assert_int_equal(mprotect(trap, page, PROT_NONE), 0);
    return (size_t)(trap - own->memory) - message / 2;
}

/* Actions of the connected peer. Each ends the process. */
static void send_stopped(struct remote *r)
{
    const size_t at = set_trap(&r->pair.client);
    assert_int_equal(post(&r->pair.client, IBV_WR_SEND, 1, at, message, NULL, 0, 0), 0);
    end_with(r);
}

/* The peer maps the target's file with the first request or shortly after it. */
static void write_stopped(struct remote *r)
{
    for (unsigned i = 0; i < 2; ++i, usleep(200000))
        post_and_expect(&r->pair.client, IBV_WR_RDMA_WRITE, 0, 0, 8, &r->target, page, IBV_WC_SUCCESS);
    const size_t at = set_trap(&r->pair.client);
    assert_int_equal(post(&r->pair.client, IBV_WR_RDMA_WRITE, 1, at, message, &r->target, 0, 0), 0);
    end_with(r);
}

/* Stops after closing its TCP connections. */
static void write_stopped_and_hung_up(struct remote *r)
{
    hangs_up = true;
    write_stopped(r);
}

/* Stops between two operations. */
static void stop_then_send(struct remote *r)
{
    memset(r->pair.client.memory, sent, r->pair.client.size);
    raise(SIGSTOP);
    if (post(&r->pair.client, IBV_WR_SEND, 1, 0, 64, NULL, 0, 0) != 0)
        _exit(ends_badly);
    end_with(r);
}

static void wait_forever(struct remote *r)
{
    for (;;)
        pause();
}

static void (*action)(struct remote *r); /* run by the next peer */

static void act_as_peer(int in)
{
    struct remote r = {.in = in, .size = size};
    meet_server(&r);
    action(&r);
}

/* Starts a peer that performs the action when it gets the region. Call before any verbs call of this process. */
static struct child start_peer(void (*act)(struct remote *r))
{
    action = act;
    return start_child(act_as_peer);
}

/* Maps a deleted file. An unprivileged peer can open it only through a descriptor of this process, so that stays
 * open. */
static uint8_t *map_open_file(void)
{
    int file;
    return map_file(size, MAP_SHARED, &file);
}

/* Accepts the connection of the peer and posts one receive. */
static void accept_peer(const struct child *peer, struct pair *p, const struct options *options)
{
    accept_child(p, peer->out, options);
    memset(p->server.memory, before, size);
    assert_int_equal(post_receive(&p->server, 7, 0, message), 0);
}

static void expect_stopped(const struct child *peer)
{
    int status = 0;
    assert_int_equal(waitpid(peer->pid, &status, WUNTRACED), peer->pid);
    assert_true(WIFSTOPPED(status));
}

/* Continues the peer. Returns its exit code: ends_well or ends_badly. */
static int continue_peer(const struct child *peer)
{
    assert_int_equal(kill(peer->pid, SIGCONT), 0);
    return exit_code_of(peer->pid);
}

/* ThreadSanitizer does not know that the peer is stopped, and would report a race with its stores. */
__attribute__((no_sanitize("thread"))) static void clear_memory(const struct pair *p)
{
    volatile uint8_t *memory = p->server.memory; /* prevents a call of memset, which ThreadSanitizer intercepts */
    for (size_t i = 0; i < size; ++i)
        memory[i] = before;
}

__attribute__((no_sanitize("thread"))) static void expect_memory_unchanged(const struct pair *p)
{
    for (size_t i = 0; i < size; ++i)
        assert_int_equal(p->server.memory[i], before);
}

/* Checks for 200 ms that no completion and no data arrives. */
static void expect_nothing(struct pair *p)
{
    expect_no_completion_for(p->server.cq, 200);
    expect_memory_unchanged(p);
}

/* Deregisters the region, to which no peer stores afterwards. */
static void expect_deregistered(struct pair *p)
{
    clear_memory(p);
    assert_int_equal(ibv_dereg_mr(p->server.mr), 0);
    usleep(50000);
    expect_memory_unchanged(p);
}

/* Accepts a peer with one receive. `file` is memory that both processes map, or NULL for private memory. */
static void admit(const struct child *peer, struct pair *p, uint8_t *file)
{
    accept_peer(peer, p, &(struct options){.size = size, .server_memory = file});
    send_greeting(peer->out, &(struct greeting){.addr = (uintptr_t)p->server.memory, .rkey = p->server.mr->rkey});
}

/* Starts a peer, and returns it when its action has stopped it. */
static struct child admit_stopped(void (*act)(struct remote *r), struct pair *p, uint8_t *file)
{
    const struct child peer = start_peer(act);
    admit(&peer, p, file);
    expect_stopped(&peer);
    return peer;
}

TEST_IN_OWN_PROCESS(a_message_to_a_deleted_connection_reaches_no_other_connection)
{
    const struct child old = start_peer(stop_then_send), fresh = start_peer(wait_forever);
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
    const struct child old = admit_stopped(stop_then_send, &p, NULL);
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
    const struct child peer = admit_stopped(send_stopped, &p, NULL);
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
    const struct child peer = admit_stopped(send_stopped, &p, NULL);
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
    const struct child peer = admit_stopped(write_stopped, &p, map_open_file());
    struct deregistration d = {.mr = p.server.mr};
    assert_int_equal(pthread_create(&thread, NULL, deregister, &d), 0);
    open_pair(&other, NULL); /* other threads are not blocked */
    close_pair(&other);
    assert_false(d.over);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(d.result, EBUSY);
    continue_peer(&peer);
    expect_deregistered(&p);
}

TEST_IN_OWN_PROCESS(a_region_is_deregistered_when_its_peer_is_killed)
{
    struct pair p;
    pthread_t thread;
    const struct child peer = admit_stopped(write_stopped, &p, map_open_file());
    struct deregistration d = {.mr = p.server.mr};
    assert_int_equal(pthread_create(&thread, NULL, deregister, &d), 0);
    usleep(200000);
    assert_false(d.over);
    kill(peer.pid, SIGKILL);
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(d.result, 0);
}

/* Starts a peer that writes to a file through a window, which is returned when the peer has stopped. */
static struct ibv_mw *admit_to_window(
        struct child *peer, void (*act)(struct remote *r), struct pair *p, enum ibv_mw_type type)
{
    *peer = start_peer(act);
    accept_peer(peer, p,
            &(struct options){.size = size,
                    .server_memory = map_open_file(),
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
        mw->rkey = ibv_inc_rkey(mw->rkey);
        const struct ibv_send_wr wr = {.wr_id = 1,
                .opcode = IBV_WR_BIND_MW,
                .send_flags = IBV_SEND_SIGNALED,
                .bind_mw = {.mw = mw, .rkey = mw->rkey, .bind_info = info}};
        assert_int_equal(post_wr(&p->server, wr), 0);
    }
    expect_completion(p->server.cq, 1, IBV_WC_SUCCESS);
    send_greeting(peer->out, &(struct greeting){.addr = (uintptr_t)p->server.memory, .rkey = mw->rkey});
    expect_stopped(peer);
    clear_memory(p);
    return mw;
}

static void invalidate(struct pair *p, struct ibv_mw *mw)
{
    const struct ibv_send_wr wr = {
            .wr_id = 2, .opcode = IBV_WR_LOCAL_INV, .send_flags = IBV_SEND_SIGNALED, .invalidate_rkey = mw->rkey};
    assert_int_equal(post_wr(&p->server, wr), 0);
}

/* The invalidation completes only when the peer can no longer store. The region can then be deregistered. */
TEST_IN_OWN_PROCESS(an_invalidation_waits_for_stores_of_a_peer)
{
    struct child peer;
    struct pair p;
    struct ibv_mw *mw = admit_to_window(&peer, write_stopped, &p, IBV_MW_TYPE_2);
    invalidate(&p, mw);
    expect_nothing(&p);
    assert_int_equal(ibv_dereg_mr(p.server.mr), EBUSY);
    expect_nothing(&p);
    const int end = continue_peer(&peer);
    expect_completion(p.server.cq, 2, IBV_WC_SUCCESS);
    assert_int_equal(p.server.memory[message - 1], end == ends_well ? sent : before);
    expect_deregistered(&p);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
}

/* The peer's TCP connections are closed. The invalidation completes once the peer has exited; later requests fail. */
TEST_IN_OWN_PROCESS(an_invalidation_completes_without_a_connection)
{
    struct child peer;
    struct pair p;
    struct ibv_mw *mw = admit_to_window(&peer, write_stopped_and_hung_up, &p, IBV_MW_TYPE_2);
    invalidate(&p, mw);
    assert_int_equal(post(&p.server, IBV_WR_SEND, 3, 0, 64, NULL, 0, 0), 0);
    expect_nothing(&p);
    kill(peer.pid, SIGKILL);
    expect_completion(p.server.cq, 2, IBV_WC_SUCCESS);
    expect_completion(p.server.cq, 3, IBV_WC_RETRY_EXC_ERR);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
}

TEST_IN_OWN_PROCESS(an_unbind_of_type_1_waits_for_stores_of_a_peer)
{
    struct child peer;
    struct pair p;
    struct ibv_mw *mw = admit_to_window(&peer, write_stopped, &p, IBV_MW_TYPE_1);
    struct ibv_mw_bind nothing = {.wr_id = 2, .send_flags = IBV_SEND_SIGNALED};
    assert_int_equal(ibv_bind_mw(p.server.qp, mw, &nothing), 0);
    expect_nothing(&p);
    kill(peer.pid, SIGKILL);
    expect_completion(p.server.cq, 2, IBV_WC_SUCCESS);
    assert_int_equal(ibv_dereg_mr(p.server.mr), 0);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
}

/* The request that invalidates the window is flushed, so the state of the window is undefined. */
TEST_IN_OWN_PROCESS(a_window_is_busy_while_a_peer_may_store)
{
    struct child peer;
    struct pair p;
    struct ibv_mw *mw = admit_to_window(&peer, write_stopped, &p, IBV_MW_TYPE_2);
    invalidate(&p, mw);
    assert_int_equal(enter_state(p.server.qp, IBV_QPS_ERR), 0);
    expect_completion(p.server.cq, 2, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(ibv_dealloc_mw(mw), EBUSY);
    assert_int_equal(ibv_dereg_mr(p.server.mr), EBUSY);
    continue_peer(&peer);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
    expect_deregistered(&p);
}
