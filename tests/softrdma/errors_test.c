/* SPDX-License-Identifier: BSD-3-Clause */
#include "fixture.h"

/* The failing request and the next one: an error, a flush, and an unchanged target. */
static void expect_refused(struct pair *p, enum ibv_wr_opcode opcode, uint64_t addr, uint32_t rkey, size_t length)
{
    uint8_t before[4096];
    fill(p->server.memory, p->server.size, 99);
    memcpy(before, p->server.memory, sizeof(before));
    assert_int_equal(post_receive(&p->server, 51, 0, 16), 0);
    assert_int_equal(post_receive(&p->server, 52, 0, 16), 0);
    struct ibv_sge sge = sge_of(&p->client, 0, length);
    struct ibv_send_wr second = {.wr_id = 2, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED};
    struct ibv_send_wr first = {.wr_id = 1, .sg_list = &sge, .num_sge = 1, .opcode = opcode, .next = &second};
    first.wr.rdma.remote_addr = addr; /* it is not even signaled */
    first.wr.rdma.rkey = rkey;
    post_wr_and_expect(&p->client, first, IBV_WC_REM_ACCESS_ERR);
    expect_completion(p->client.cq, 2, IBV_WC_WR_FLUSH_ERR);
    expect_completion(p->server.cq, 51, IBV_WC_WR_FLUSH_ERR);
    expect_completion(p->server.cq, 52, IBV_WC_WR_FLUSH_ERR);
    assert_int_equal(state_of(p->client.qp), IBV_QPS_ERR);
    assert_int_equal(state_of(p->server.qp), IBV_QPS_ERR);
    expect_async(p->server.qp->context, IBV_EVENT_QP_ACCESS_ERR, p->server.qp);
    assert_memory_equal(p->server.memory, before, sizeof(before));
    post_and_expect(&p->client, IBV_WR_RDMA_WRITE, 3, 0, 8, &p->server, 0, IBV_WC_WR_FLUSH_ERR);
}

TEST(a_wrong_key_or_range_is_a_remote_access_error)
{
    for (int i = 0; i < 5; ++i) {
        OPEN_PAIR(p, NULL);
        const uintptr_t begin = (uintptr_t)p.server.memory;
        const uint64_t addresses[] = {begin, begin + p.server.size - 7, begin - 1, UINT64_MAX - 3, begin};
        const uint32_t wrong_bits[] = {1, 0, 0, 0, 0x10000}; /* the last key has the same slot in the table of keys */
        expect_refused(
                &p, i == 2 ? IBV_WR_RDMA_READ : IBV_WR_RDMA_WRITE, addresses[i], p.server.mr->rkey ^ wrong_bits[i], 8);
    }
}

TEST(a_region_without_the_right_is_a_remote_access_error)
{
    OPEN_PAIR(p, &(struct options){.server_access = IBV_ACCESS_REMOTE_READ});
    expect_refused(&p, IBV_WR_RDMA_WRITE, (uintptr_t)p.server.memory, p.server.mr->rkey, 8);
}

PAIR_TEST(a_region_of_another_domain_is_a_remote_access_error, connected)
{
    struct ibv_pd *other = ibv_alloc_pd(p->server.id->verbs);
    struct ibv_mr *mr = create_mr(other, p->server.memory, p->server.size, everything);
    expect_refused(p, IBV_WR_RDMA_WRITE, (uintptr_t)p->server.memory, mr->rkey, 8);
    assert_int_equal(ibv_dealloc_pd(other), EBUSY);
    assert_int_equal(ibv_dereg_mr(mr), 0);
    assert_int_equal(ibv_dealloc_pd(other), 0);
}

PAIR_TEST(local_errors_come_after_what_was_posted_before, connected)
{
    const uint32_t good = p->client.mr->lkey;
    fill(p->client.memory, 8, 4);
    assert_int_equal(post(&p->client, IBV_WR_RDMA_WRITE, 1, 0, 8, &p->server, 0, 0), 0);
    p->client.mr->lkey = good ^ 1;
    assert_int_equal(post(&p->client, IBV_WR_RDMA_WRITE, 2, 0, 8, &p->server, 8, 0), 0);
    p->client.mr->lkey = good;
    expect_completion(p->client.cq, 1, IBV_WC_SUCCESS);
    expect_completion(p->client.cq, 2, IBV_WC_LOC_PROT_ERR);
    assert_memory_equal(p->server.memory, p->client.memory, 8);
    assert_int_equal(p->server.memory[8], 0);
}

/* Posts a receive with another local key, and a message for it, which fails on both sides. */
static void expect_operation_error(struct pair *p, uint32_t lkey)
{
    struct ibv_mr mr = {.lkey = lkey};
    struct side receiver = p->server;
    receiver.mr = &mr;
    assert_int_equal(post_receive(&receiver, 1, 0, 16), 0);
    assert_int_equal(post(&p->client, IBV_WR_SEND, 2, 0, 8, NULL, 0, 0), 0);
    expect_completion(p->server.cq, 1, IBV_WC_LOC_PROT_ERR);
    expect_completion(p->client.cq, 2, IBV_WC_REM_OP_ERR);
}

PAIR_TEST(a_receive_without_a_valid_key_is_an_operation_error_at_the_sender, connected)
{
    expect_operation_error(p, p->server.mr->lkey ^ 1u);
}

/* Sends a message into every slot of the server's receive queue, so that later receives reuse the slots. */
static void use_all_receives(struct pair *p, size_t length)
{
    for (uint64_t i = 0; i < 16; ++i) {
        assert_int_equal(post_receive(&p->server, i, 0, length), 0);
        assert_int_equal(post(&p->client, IBV_WR_SEND, i, 0, 8, NULL, 0, 0), 0);
        expect_completion(p->server.cq, i, IBV_WC_SUCCESS);
        expect_completion(p->client.cq, i, IBV_WC_SUCCESS);
    }
}

PAIR_TEST(a_receive_posted_again_with_another_key_needs_its_rights, connected)
{
    struct ibv_mr *constant = create_mr(p->server.pd, p->server.memory, p->server.size, 0);
    use_all_receives(p, 16);
    expect_operation_error(p, constant->lkey);
    assert_int_equal(ibv_dereg_mr(constant), 0);
}

/* The receive is the first one of the queue, or a later one, whose length is the new one. */
TEST(a_message_longer_than_its_receive_fails_on_both_sides)
{
    for (int reposted = 0; reposted < 2; ++reposted) {
        OPEN_PAIR(p, NULL);
        if (reposted)
            use_all_receives(&p, 8);
        assert_int_equal(post_receive(&p.server, 1, 0, 7), 0);
        assert_int_equal(post(&p.client, IBV_WR_SEND, 2, 0, 8, NULL, 0, 0), 0);
        expect_completion(p.server.cq, 1, IBV_WC_LOC_LEN_ERR);
        expect_completion(p.client.cq, 2, IBV_WC_REM_INV_REQ_ERR);
        expect_async(p.server.qp->context, IBV_EVENT_QP_REQ_ERR, p.server.qp);
    }
}

PAIR_TEST(a_receive_posted_again_in_a_deregistered_region_is_an_operation_error_at_the_sender, connected)
{
    const uint32_t gone = p->server.mr->lkey;
    use_all_receives(p, 16);
    assert_int_equal(ibv_dereg_mr(p->server.mr), 0);
    p->server.mr = create_mr(p->server.pd, p->server.memory, p->server.size, everything);
    expect_operation_error(p, gone);
}

PAIR_TEST(a_deregistered_region_does_not_change_when_its_message_is_taken, connected)
{
    struct ibv_mr *good = p->server.mr;
    p->server.mr = create_mr(p->server.pd, p->server.memory, p->server.size, everything);
    fill(p->client.memory, 8, 5);
    assert_int_equal(post_receive(&p->server, 1, 0, 16), 0);
    post_and_expect(&p->client, IBV_WR_SEND, 2, 0, 8, NULL, 0, IBV_WC_SUCCESS);
    assert_int_equal(ibv_dereg_mr(p->server.mr), 0);
    p->server.mr = good;
    memset(p->server.memory, 0x55, 8);
    assert_int_equal(next_completion(p->server.cq).wr_id, 1);
    assert_int_equal(p->server.memory[0], 0x55);
    assert_memory_equal(p->server.memory, p->server.memory + 1, 7);
}

static int post_unsignalled_write(struct pair *p)
{
    struct ibv_sge sge = sge_of(&p->client, 0, 8);
    return post_wr(
            &p->client, (struct ibv_send_wr){.sg_list = &sge,
                                .num_sge = 1,
                                .opcode = IBV_WR_RDMA_WRITE,
                                .wr.rdma = {.remote_addr = (uintptr_t)p->server.memory, .rkey = p->server.mr->rkey}});
}

/* The program has no completion for these requests yet: on every path they keep their entries in the queue. */
PAIR_TEST(requests_without_completions_fill_the_send_queue, connected)
{
    for (unsigned round = 0; round < 3; ++round) {
        for (unsigned i = 0; i < 15; ++i)
            assert_int_equal(post_unsignalled_write(p), 0);
        assert_int_equal(post(&p->client, IBV_WR_RDMA_WRITE, round, 0, 8, &p->server, 0, 0), 0);
        for (unsigned i = 0; i < 100; ++i)
            assert_int_equal(post_unsignalled_write(p), ENOMEM);
        /* The completion of a later request releases the entries of the earlier ones. */
        expect_completion(p->client.cq, round, IBV_WC_SUCCESS);
    }
}

PAIR_TEST(a_refused_chain_names_its_first_bad_request, connected)
{
    struct ibv_send_wr bad_one = {.wr_id = 2, .opcode = IBV_WR_TSO};
    struct ibv_send_wr good = {
            .wr_id = 1, .opcode = IBV_WR_RDMA_WRITE, .send_flags = IBV_SEND_SIGNALED, .next = &bad_one};
    struct ibv_send_wr *bad = NULL;
    assert_int_equal(ibv_post_send(p->client.qp, &good, &bad), EOPNOTSUPP);
    assert_ptr_equal(bad, &bad_one);
    expect_completion(p->client.cq, 1, IBV_WC_SUCCESS);
}

PAIR_TEST(a_peer_in_error_makes_the_sender_run_out_of_retries, connected)
{
    assert_int_equal(enter_state(p->server.qp, IBV_QPS_ERR), 0);
    assert_int_equal(post(&p->client, IBV_WR_RDMA_READ, 1, 0, 8, &p->server, 0, 0), 0);
    assert_int_equal(post(&p->client, IBV_WR_RDMA_WRITE, 2, 0, 8, &p->server, 0, 0), 0);
    expect_completion(p->client.cq, 1, IBV_WC_RETRY_EXC_ERR);
    expect_completion(p->client.cq, 2, IBV_WC_WR_FLUSH_ERR);
}

/* A request that cannot read its own memory fails, whether the peer has posted a receive or not. */
TEST(a_wrong_local_key_is_a_protection_error_without_a_receive)
{
    static const enum ibv_wr_opcode opcodes[] = {IBV_WR_SEND, IBV_WR_RDMA_WRITE_WITH_IMM};
    for (int i = 0; i < 2; ++i) {
        OPEN_PAIR(p, &(struct options){.rnr_retry = 1});
        p.client.mr->lkey ^= 1;
        post_and_expect(&p.client, opcodes[i], 1, 0, 16, &p.server, 0, IBV_WC_LOC_PROT_ERR);
        p.client.mr->lkey ^= 1;
    }
}

/* UndefinedBehaviorSanitizer reports a load of such a value as its enumeration. */
PAIR_TEST(values_outside_of_their_enumerations_are_rejected, connected)
{
    struct ibv_send_wr *bad = NULL;
    for (unsigned opcode = 31; opcode < 1u << 31; opcode = opcode * 2 + 1) {
        struct ibv_send_wr wr = {.opcode = (enum ibv_wr_opcode)opcode};
        assert_int_equal(ibv_post_send(p->client.qp, &wr, &bad), EOPNOTSUPP);
        assert_ptr_equal(bad, &wr);
    }
    struct ibv_qp_attr attr = {.qp_state = (enum ibv_qp_state)99, .cur_qp_state = (enum ibv_qp_state)99};
    assert_int_equal(ibv_modify_qp(p->client.qp, &attr, IBV_QP_STATE), EINVAL);
    attr.qp_state = IBV_QPS_RTS;
    assert_int_equal(ibv_modify_qp(p->client.qp, &attr, IBV_QP_STATE | IBV_QP_CUR_STATE), EINVAL);
    attr.path_mtu = (enum ibv_mtu)99;
    assert_int_equal(ibv_modify_qp(p->client.qp, &attr, IBV_QP_STATE | IBV_QP_PATH_MTU), EINVAL);
    struct ibv_qp_init_attr init = {
            .send_cq = p->client.cq, .recv_cq = p->client.cq, .qp_type = (enum ibv_qp_type)9999};
    expect_null(ibv_create_qp(p->client.pd, &init), EOPNOTSUPP);
    assert_int_equal(state_of(p->client.qp), IBV_QPS_RTS);
}
