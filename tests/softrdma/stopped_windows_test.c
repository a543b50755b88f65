/* SPDX-License-Identifier: BSD-3-Clause */
/* Invalidation of memory windows while a peer is stopped in the middle of an operation. */
#include "stopped_peer.h"

#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

/* Starts a peer that writes to a file through a window, which is returned when the peer has stopped. */
static struct ibv_mw *admit_to_window(
        struct peer *peer, void (*act)(struct remote *r), struct pair *p, enum ibv_mw_type type)
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
    order(peer, &(struct order){.addr = (uintptr_t)p->server.memory, .rkey = mw->rkey});
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
    struct peer peer;
    struct pair p;
    struct ibv_mw *mw = admit_to_window(&peer, write_stopped, &p, IBV_MW_TYPE_2);
    invalidate(&p, mw);
    expect_nothing(&p);
    assert_int_equal(ibv_dereg_mr(p.server.mr), EBUSY);
    expect_nothing(&p);
    const int end = continue_peer(&peer);
    expect_completion(p.server.cq, 2, IBV_WC_SUCCESS);
    assert_int_equal(p.server.memory[message - 1], end == ends_well ? sent : before);
    clear_memory(&p);
    assert_int_equal(ibv_dereg_mr(p.server.mr), 0);
    usleep(50000);
    expect_memory_unchanged(&p);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
}

/* The peer's TCP connections are closed. The invalidation completes once the peer has exited; later requests fail. */
TEST_IN_OWN_PROCESS(an_invalidation_completes_without_a_connection)
{
    struct peer peer;
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
    struct peer peer;
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
    struct peer peer;
    struct pair p;
    struct ibv_mw *mw = admit_to_window(&peer, write_stopped, &p, IBV_MW_TYPE_2);
    invalidate(&p, mw);
    assert_int_equal(enter_state(p.server.qp, IBV_QPS_ERR), 0);
    expect_completion(p.server.cq, 2, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(ibv_dealloc_mw(mw), EBUSY);
    assert_int_equal(ibv_dereg_mr(p.server.mr), EBUSY);
    continue_peer(&peer);
    clear_memory(&p);
    assert_int_equal(ibv_dealloc_mw(mw), 0);
    assert_int_equal(ibv_dereg_mr(p.server.mr), 0);
    usleep(50000);
    expect_memory_unchanged(&p);
}
