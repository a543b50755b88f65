/* SPDX-License-Identifier: BSD-3-Clause */
#include "fixture.h"

static int with_shared_queue(void **state)
{
    return set_up_pair(state, &(struct options){.server_srq = true});
}

static int post_shared(struct pair *p, uint64_t wr_id, size_t offset, size_t length)
{
    return post_shared_receive(p->srq, &p->server, wr_id, offset, length);
}

PAIR_TEST(posting_to_the_shared_queue_wakes_a_waiting_sender, with_shared_queue)
{
    assert_int_equal(post(&p->client, IBV_WR_SEND, 1, 0, 8, NULL, 0, 0), 0);
    usleep(50000);
    assert_int_equal(post_shared(p, 2, 0, 8), 0);
    expect_completion(p->server.cq, 2, IBV_WC_SUCCESS);
    expect_completion(p->client.cq, 1, IBV_WC_SUCCESS);
}

PAIR_TEST(shared_receives_survive_a_broken_queue_pair, with_shared_queue)
{
    assert_int_equal(post_shared(p, 5, 0, 64), 0);
    assert_int_equal(enter_state(p->server.qp, IBV_QPS_ERR), 0);
    expect_no_completion(p->server.cq);
    expect_async(p->server.id->verbs, IBV_EVENT_QP_LAST_WQE_REACHED, p->server.qp);
}

/* The keys of a shared receive belong to the protection domain of the shared queue, not to that of the queue pair. */
DEFINE_TEST(receives_use_the_domain_of_their_queue, NULL, NULL)
{
    OPEN_PAIR(p, &(struct options){.server_srq = true, .srq_apart = true});
    uint8_t memory[64] = {0};
    struct ibv_mr *mr = create_mr(p.srq_pd, memory, sizeof(memory), everything);
    const struct side apart = {.memory = memory, .mr = mr};
    assert_int_equal(post_shared_receive(p.srq, &apart, 7, 0, sizeof(memory)), 0);
    fill(p.client.memory, 64, 3);
    post_and_expect(&p.client, IBV_WR_SEND, 1, 0, 64, NULL, 0, IBV_WC_SUCCESS);
    expect_completion(p.server.cq, 7, IBV_WC_SUCCESS);
    assert_memory_equal(memory, p.client.memory, 64);
    assert_int_equal(post_shared(&p, 8, 0, 64), 0); /* memory of the queue pair's domain */
    assert_int_equal(post(&p.client, IBV_WR_SEND, 2, 0, 64, NULL, 0, 0), 0);
    expect_completion(p.server.cq, 8, IBV_WC_LOC_PROT_ERR);
    expect_completion(p.client.cq, 2, IBV_WC_REM_OP_ERR);
    assert_int_equal(ibv_dereg_mr(mr), 0);
}

PAIR_TEST(the_limit_is_reported_once, with_shared_queue)
{
    struct ibv_srq_attr attr = {.srq_limit = 2};
    for (uint64_t i = 0; i < 3; ++i)
        assert_int_equal(post_shared(p, i, 0, 64), 0);
    assert_int_equal(ibv_modify_srq(p->srq, &attr, IBV_SRQ_LIMIT), 0);
    for (uint64_t i = 0; i < 2; ++i) {
        assert_int_equal(post(&p->client, IBV_WR_SEND, i, 0, 8, NULL, 0, 0), 0);
        expect_completion(p->server.cq, i, IBV_WC_SUCCESS);
    }
    expect_async(p->server.id->verbs, IBV_EVENT_SRQ_LIMIT_REACHED, p->srq);
    assert_int_equal(ibv_query_srq(p->srq, &attr), 0);
    assert_int_equal(attr.srq_limit, 0);
}

/* A program may wait for the event and post without polling. */
PAIR_TEST(the_limit_is_reported_to_a_program_that_does_not_poll, with_shared_queue)
{
    struct ibv_srq_attr attr = {.srq_limit = 3};
    for (uint64_t i = 0; i < 6; ++i)
        assert_int_equal(post_shared(p, i, 0, 64), 0);
    for (uint64_t i = 0; i < 2; ++i) {
        post_and_expect(&p->client, IBV_WR_SEND, i, 0, 8, NULL, 0, IBV_WC_SUCCESS);
    }
    assert_int_equal(ibv_modify_srq(p->srq, &attr, IBV_SRQ_LIMIT), 0);
    post_and_expect(&p->client, IBV_WR_SEND, 2, 0, 8, NULL, 0, IBV_WC_SUCCESS);
    assert_int_equal(ibv_query_srq(p->srq, &attr), 0);
    assert_int_equal(attr.srq_limit, 3);
    post_and_expect(&p->client, IBV_WR_SEND, 3, 0, 8, NULL, 0, IBV_WC_SUCCESS);
    expect_async(p->server.id->verbs, IBV_EVENT_SRQ_LIMIT_REACHED, p->srq);
    for (uint64_t i = 0; i < 4; ++i)
        expect_completion(p->server.cq, i, IBV_WC_SUCCESS);
}

PAIR_TEST(a_message_longer_than_its_receive_is_rejected, with_shared_queue)
{
    assert_int_equal(post_shared(p, 1, 0, 128), 0);
    assert_int_equal(post_shared(p, 2, 128, 64), 0);
    assert_int_equal(post_shared(p, 3, 256, 128), 0);
    post_and_expect(&p->client, IBV_WR_SEND, 1, 0, 128, NULL, 0, IBV_WC_SUCCESS);
    post_and_expect(&p->client, IBV_WR_SEND, 2, 0, 65, NULL, 0, IBV_WC_REM_INV_REQ_ERR);
    expect_completion(p->server.cq, 1, IBV_WC_SUCCESS);
    expect_completion(p->server.cq, 2, IBV_WC_LOC_LEN_ERR);
}

/* Long messages use TCP, and must not overtake short ones. */
DEFINE_TEST(messages_of_all_lengths_arrive_in_order, NULL, NULL)
{
    enum {
        longest = 100000,
        count = 12
    };
    OPEN_PAIR(p, &(struct options){.server_srq = true, .size = count * longest});
    const size_t lengths[] = {8, longest, 8, 300, 16384, 16385};
    fill(p.client.memory, longest, 7);
    for (uint64_t i = 0; i < count; ++i)
        assert_int_equal(post_shared(&p, i, i * longest, longest), 0);
    for (uint64_t i = 0; i < count; ++i)
        assert_int_equal(post(&p.client, IBV_WR_SEND, i, i, lengths[i % 6], NULL, 0, 0), 0);
    for (uint64_t i = 0; i < count; ++i) {
        assert_int_equal(expect_completion(p.server.cq, i, IBV_WC_SUCCESS).byte_len, lengths[i % 6]);
        assert_memory_equal(p.server.memory + i * longest, p.client.memory + i, lengths[i % 6]);
        expect_completion(p.client.cq, i, IBV_WC_SUCCESS);
    }
}

/* In shared memory, each of these receives becomes available to the next queue pair. Over a network, as on hardware,
 * the message has consumed its receive. */
PAIR_TEST(receives_of_unpolled_messages_survive_a_reset, with_shared_queue)
{
    for (uint64_t i = 0; i < 16; ++i)
        assert_int_equal(post_shared(p, i, 0, 64), 0);
    assert_int_equal(post_shared(p, 99, 0, 64), ENOMEM);
    if (!is_over_roce() && !is_over("tcp")) {
        for (uint64_t i = 0; i < 3; ++i) {
            post_and_expect(&p->client, IBV_WR_SEND, i, 0, 64, NULL, 0, IBV_WC_SUCCESS);
        }
    }
    to_reset(p->server.qp);
    expect_no_completion(p->server.cq);
    assert_int_equal(post_shared(p, 99, 0, 64), ENOMEM);
    struct ibv_srq_attr attr = {.max_wr = 15};
    assert_int_equal(ibv_modify_srq(p->srq, &attr, IBV_SRQ_MAX_WR), EINVAL);
    attr.max_wr = 17;
    assert_int_equal(ibv_modify_srq(p->srq, &attr, IBV_SRQ_MAX_WR), 0);
    assert_int_equal(post_shared(p, 99, 0, 64), 0);
    assert_int_equal(post_shared(p, 100, 0, 64), ENOMEM);
}
