/* SPDX-License-Identifier: BSD-3-Clause */
#include "fixture.h"

#include <poll.h>

PAIR_TEST(requests_behind_a_waiting_message_stay_in_order, connected)
{
    fill(p->client.memory, 4096, 8);
    assert_int_equal(post(&p->client, IBV_WR_SEND, 1, 0, 8, NULL, 0, 0), 0);
    assert_int_equal(post(&p->client, IBV_WR_RDMA_WRITE, 2, 0, 8, &p->server, 1024, 0), 0);
    assert_int_equal(post(&p->client, IBV_WR_RDMA_READ, 3, 2048, 8, &p->server, 1024, 0), 0);
    assert_int_equal(post(&p->client, IBV_WR_RDMA_WRITE_WITH_IMM, 4, 16, 8, &p->server, 1032, 0), 0);
    usleep(50000);
    assert_int_equal(p->server.memory[1024], 0); /* not before the message */
    assert_int_equal(post_receive(&p->server, 11, 0, 8), 0);
    expect_completion(p->client.cq, 1, IBV_WC_SUCCESS);
    expect_completion(p->client.cq, 2, IBV_WC_SUCCESS);
    expect_completion(p->client.cq, 3, IBV_WC_SUCCESS);
    assert_memory_equal(p->client.memory + 2048, p->client.memory, 8);
    assert_int_equal(post_receive(&p->server, 12, 0, 0), 0);
    expect_completion(p->client.cq, 4, IBV_WC_SUCCESS);
}

PAIR_TEST(a_receiver_can_send_while_a_message_waits, connected)
{
    assert_int_equal(post(&p->client, IBV_WR_SEND, 1, 0, 8, NULL, 0, 0), 0);
    usleep(20000);
    assert_int_equal(post_receive(&p->client, 2, 64, 8), 0);
    post_and_expect(&p->server, IBV_WR_SEND, 3, 0, 8, NULL, 0, IBV_WC_SUCCESS);
    expect_completion(p->client.cq, 2, IBV_WC_SUCCESS);
    assert_int_equal(post_receive(&p->server, 4, 64, 8), 0);
    expect_completion(p->client.cq, 1, IBV_WC_SUCCESS);
}

/* The notification arrives before the next retry of the sender, which is due after 655 ms. */
PAIR_TEST(a_sleeping_sender_is_notified_of_the_receive, connected)
{
    struct pollfd event = {.fd = p->client.completions->fd, .events = POLLIN};
    int left_ms = time_limit_ms;
    for (uint64_t i = 0; i < 40; ++i) {
        assert_int_equal(ibv_req_notify_cq(p->client.cq, 0), 0);
        assert_int_equal(post(&p->client, IBV_WR_SEND, i, 0, 8, NULL, 0, 0), 0);
        usleep(2000);
        assert_int_equal(post_receive(&p->server, i, 64, 8), 0);
        for (; poll(&event, 1, 1) == 0; --left_ms)
            assert_true(left_ms > 0);
        take_cq_event(p->client.completions);
        expect_completion(p->client.cq, i, IBV_WC_SUCCESS);
        expect_completion(p->server.cq, i, IBV_WC_SUCCESS);
    }
}

DEFINE_TEST(a_sender_with_few_retries_fails, NULL, NULL)
{
    for (int shared = 0; shared < 2; ++shared) {
        OPEN_PAIR(p, &(struct options){.server_srq = shared, .rnr_retry = 2});
        struct ibv_qp_attr attr = {.min_rnr_timer = 12}; /* 0.64 ms instead of 655 ms */
        assert_int_equal(ibv_modify_qp(p.server.qp, &attr, IBV_QP_MIN_RNR_TIMER), 0);
        assert_int_equal(post(&p.client, IBV_WR_SEND, 1, 0, 8, NULL, 0, 0), 0);
        assert_int_equal(post(&p.client, IBV_WR_RDMA_WRITE, 2, 0, 8, &p.server, 0, 0), 0);
        expect_completion(p.client.cq, 1, IBV_WC_RNR_RETRY_EXC_ERR);
        expect_completion(p.client.cq, 2, IBV_WC_WR_FLUSH_ERR);
    }
}

DEFINE_TEST(a_large_message_is_retransmitted_completely, NULL, NULL)
{
    OPEN_PAIR(p, &(struct options){.size = 2u << 20});
    fill(p.client.memory, p.client.size, 8);
    assert_int_equal(post(&p.client, IBV_WR_SEND, 1, 0, p.client.size, NULL, 0, 0), 0);
    usleep(20000);
    assert_int_equal(post_receive(&p.server, 2, 0, p.server.size), 0);
    assert_int_equal(next_completion(p.server.cq).byte_len, p.client.size);
    assert_memory_equal(p.server.memory, p.client.memory, p.client.size);
    expect_completion(p.client.cq, 1, IBV_WC_SUCCESS);
}
