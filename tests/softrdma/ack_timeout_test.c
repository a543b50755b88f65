/* SPDX-License-Identifier: BSD-3-Clause */
/* RDMA_OPTION_ID_ACK_TIMEOUT: a request to a stopped process fails if the peer itself must respond. */
#include "remote.h"

#include <signal.h>

/* 4.096 us * 2^15 * (1 + 7 retries): about a second. */
enum {
    limit_ms = 1100,
    ack_timeout = 15
};

static const struct server_plan sleeps = {
        .access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC};

static void begin(struct remote *r, uint8_t timeout)
{
    start_server(r, &sleeps, NULL);
    r->ack_timeout = timeout;
    meet_server(r);
}

/* COMPARE AND SWAP, which the peer itself must execute on every path. */
static int compare_and_swap(struct remote *r, uint64_t wr_id)
{
    return post_atomic(&r->pair.client, IBV_WR_ATOMIC_CMP_AND_SWP, wr_id, &r->target, 0, 0, 0);
}

TEST_IN_OWN_PROCESS(a_stopped_peer_times_out)
{
    REMOTE r;
    begin(&r, ack_timeout);
    struct side *c = &r.pair.client;
    assert_int_equal(compare_and_swap(&r, 1), 0);
    expect_completion(c->cq, 1, IBV_WC_SUCCESS);
    suspend_server(&r);
    assert_int_equal(compare_and_swap(&r, 2), 0);
    assert_int_equal(post(c, IBV_WR_RDMA_WRITE, 3, 0, 8, &r.target, 0, 0), 0);
    expect_completion(c->cq, 2, IBV_WC_RETRY_EXC_ERR);
    expect_completion(c->cq, 3, IBV_WC_WR_FLUSH_ERR);
}

/* Data that a long WRITE leaves in the buffers of TCP is not a response. */
TEST_IN_OWN_PROCESS(a_peer_stopped_in_a_long_write_times_out)
{
    REMOTE r;
    struct server_plan plan = sleeps;
    plan.size = 64 << 20;
    start_server(&r, &plan, NULL);
    r.ack_timeout = ack_timeout;
    meet_server(&r);
    suspend_server(&r);
    assert_int_equal(post(&r.pair.client, IBV_WR_RDMA_WRITE, 2, 0, plan.size, &r.target, 0, 0), 0);
    /* The memory of the peer is private, or the peer is on another host. */
    const bool needs_the_peer = getenv("SOFTRDMA_TRANSPORT") != NULL && !is_over("auto");
    expect_completion(r.pair.client.cq, 2, needs_the_peer ? IBV_WC_RETRY_EXC_ERR : IBV_WC_SUCCESS);
}

TEST_IN_OWN_PROCESS(an_idle_peer_does_not_time_out)
{
    REMOTE r;
    begin(&r, ack_timeout);
    for (uint64_t i = 0; i < 3; ++i) {
        assert_int_equal(compare_and_swap(&r, i), 0);
        expect_completion(r.pair.client.cq, i, IBV_WC_SUCCESS);
        usleep(2 * limit_ms * 1000);
    }
}

/* Without the option, or with an infinite timeout, the program waits. */
static void wait_for_a_peer(uint8_t timeout)
{
    REMOTE r;
    begin(&r, timeout);
    suspend_server(&r);
    assert_int_equal(compare_and_swap(&r, 2), 0);
    usleep(2 * limit_ms * 1000);
    expect_no_completion(r.pair.client.cq);
    assert_int_equal(kill(r.pid, SIGCONT), 0);
    expect_completion(r.pair.client.cq, 2, IBV_WC_SUCCESS);
}

TEST_IN_OWN_PROCESS(without_the_option_a_peer_has_all_time)
{
    wait_for_a_peer(no_ack_timeout);
}

TEST_IN_OWN_PROCESS(zero_means_all_time)
{
    wait_for_a_peer(0);
}

TEST_IN_OWN_PROCESS(the_time_out_is_the_queue_pairs)
{
    REMOTE r;
    begin(&r, ack_timeout);
    assert_int_equal(query(r.pair.client.qp, IBV_QP_TIMEOUT).timeout, ack_timeout);
    uint8_t value = 32;
    expect_error(rdma_set_option(r.pair.client.id, RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &value, 1), EINVAL);
}
