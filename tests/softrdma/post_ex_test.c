/* SPDX-License-Identifier: BSD-3-Clause */
/* The new post interface (ibv_wr_*). */
#include "native.h"

#include <arpa/inet.h>

enum {
    plain_ops = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM | IBV_QP_EX_WITH_SEND |
                IBV_QP_EX_WITH_SEND_WITH_IMM | IBV_QP_EX_WITH_RDMA_READ,
    batches = 2000, /* batches of each thread */
};

static int with_plain_ops(void **state)
{
    return set_up_pair(state, &(struct options){.send_ops = plain_ops});
}

static struct ibv_qp_ex *start(struct pair *p, uint64_t wr_id)
{
    struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(p->client.qp);
    ibv_wr_start(qp);
    qp->wr_id = wr_id;
    qp->wr_flags = IBV_SEND_SIGNALED;
    return qp;
}

static uint64_t remote(const struct pair *p, size_t offset)
{
    return (uintptr_t)p->server.memory + offset;
}

/* Adds a WRITE to the batch, from the start of the client's memory. */
static void add_write(struct pair *p, size_t offset, uint32_t length)
{
    struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(p->client.qp);
    ibv_wr_rdma_write(qp, p->server.mr->rkey, remote(p, offset));
    ibv_wr_set_sge(qp, p->client.mr->lkey, (uintptr_t)p->client.memory, length);
}

DEFINE_TEST(only_queue_pairs_created_with_send_ops_have_the_interface, NULL, NULL)
{
    OPEN_PAIR(p, &(struct options){.send_ops = IBV_QP_EX_WITH_RDMA_WRITE});
    struct ibv_qp_ex *qp = ibv_qp_to_qp_ex(p.client.qp);
    assert_non_null(qp);
    assert_null(ibv_qp_to_qp_ex(p.server.qp));
    assert_non_null(qp->wr_rdma_write);
    assert_null(qp->wr_rdma_read);
    assert_null(qp->wr_atomic_write);
    assert_null(wr_flush_of(qp));
}

DEFINE_TEST(unknown_operations_are_rejected, NULL, NULL)
{
    PAIR p = {0};
    open_listener(&p, "127.0.0.1");
    resolve_client(&p, NULL);
    const uint64_t unknown[] = {IBV_QP_EX_WITH_TSO, 1ULL << 40};
    for (size_t i = 0; i < sizeof(unknown) / sizeof(unknown[0]); ++i)
        expect_no_send_ops(&p.client, unknown[i]);
}

PAIR_TEST(one_sided_operations_move_data, with_plain_ops)
{
    fill(p->client.memory, 1024, 1);
    struct ibv_qp_ex *qp = start(p, 1);
    add_write(p, 512, 1024);
    qp->wr_id = 2;
    ibv_wr_rdma_read(qp, p->server.mr->rkey, remote(p, 512));
    const struct ibv_sge halves[] = {sge_of(&p->client, 3000, 500), sge_of(&p->client, 2000, 524)};
    ibv_wr_set_sge_list(qp, 2, halves);
    assert_int_equal(ibv_wr_complete(qp), 0);
    expect_completion(p->client.cq, 1, IBV_WC_SUCCESS);
    expect_completion(p->client.cq, 2, IBV_WC_SUCCESS);
    assert_memory_equal(p->server.memory + 512, p->client.memory, 1024);
    assert_memory_equal(p->client.memory + 3000, p->client.memory, 500);
    assert_memory_equal(p->client.memory + 2000, p->client.memory + 500, 524);
}

PAIR_TEST(messages_carry_inline_and_immediate_data, with_plain_ops)
{
    for (unsigned i = 0; i < 4; ++i)
        assert_int_equal(post_receive(&p->server, i, 64 * i, 64), 0);
    char text[] = "first half, second half";
    const struct ibv_data_buf halves[] = {{text, 10}, {text, 0}, {text + 12, 11}};
    struct ibv_qp_ex *qp = start(p, 1);
    ibv_wr_send(qp);
    ibv_wr_set_inline_data(qp, text, 5);
    ibv_wr_send_imm(qp, htonl(77));
    ibv_wr_set_inline_data_list(qp, 3, halves);
    ibv_wr_rdma_write_imm(qp, p->server.mr->rkey, remote(p, 1000), htonl(78));
    ibv_wr_set_inline_data(qp, text, 5);
    memset(text, '-', sizeof(text)); /* the data was copied when it was set */
    assert_int_equal(ibv_wr_complete(qp), 0);
    for (unsigned i = 0; i < 3; ++i)
        expect_completion(p->client.cq, 1, IBV_WC_SUCCESS);
    assert_int_equal(next_completion(p->server.cq).byte_len, 5);
    struct ibv_wc wc = next_completion(p->server.cq);
    assert_int_equal(wc.byte_len, 21);
    assert_int_equal(ntohl(wc.imm_data), 77);
    assert_memory_equal(p->server.memory + 64, "first halfsecond half", 21);
    wc = next_completion(p->server.cq);
    assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
    assert_int_equal(ntohl(wc.imm_data), 78);
    assert_memory_equal(p->server.memory + 1000, "first", 5);

    /* The other interface. */
    memcpy(text, "First half, second half", sizeof(text));
    struct ibv_sge list[] = {{(uintptr_t)text, 10, 0}, {(uintptr_t)text, 0, 0}, {(uintptr_t)text + 12, 11, 0}};
    struct ibv_send_wr send = {.wr_id = 1, .sg_list = list, .num_sge = 3, .opcode = IBV_WR_SEND};
    send.send_flags = IBV_SEND_INLINE | IBV_SEND_SIGNALED;
    assert_int_equal(post_wr(&p->client, send), 0);
    memset(text, '-', sizeof(text));
    expect_completion(p->client.cq, 1, IBV_WC_SUCCESS);
    assert_int_equal(next_completion(p->server.cq).byte_len, 21);
    assert_memory_equal(p->server.memory + 192, "First halfsecond half", 21);
}

/* One thread builds a batch on each of two queue pairs, and polls both. */
DEFINE_TEST(batches_of_two_queue_pairs_can_interleave, NULL, NULL)
{
    struct pair p[2];
    for (unsigned i = 0; i < 2; ++i) {
        open_pair(&p[i], &(struct options){.send_ops = plain_ops});
        fill(p[i].client.memory, 8, i);
    }
    for (unsigned i = 0; i < 2; ++i) {
        start(&p[i], i);
        add_write(&p[i], 0, 8);
        expect_no_completion(p[i].client.cq);
    }
    for (unsigned i = 0; i < 2; ++i) {
        assert_int_equal(ibv_wr_complete(ibv_qp_to_qp_ex(p[i].client.qp)), 0);
        expect_completion(p[i].client.cq, i, IBV_WC_SUCCESS);
        assert_memory_equal(p[i].server.memory, p[i].client.memory, 8);
    }
    close_pair(&p[0]);
    close_pair(&p[1]);
}

PAIR_TEST(an_aborted_batch_posts_no_request, with_plain_ops)
{
    p->client.memory[0] = 1;
    struct ibv_qp_ex *qp = start(p, 1);
    add_write(p, 0, 1);
    ibv_wr_abort(qp);
    qp = start(p, 2);
    add_write(p, 8, 1);
    assert_int_equal(ibv_wr_complete(qp), 0);
    expect_completion(p->client.cq, 2, IBV_WC_SUCCESS);
    assert_int_equal(p->server.memory[0], 0);
    assert_int_equal(p->server.memory[8], 1);
    qp = start(p, 3);
    assert_int_equal(ibv_wr_complete(qp), 0); /* an empty batch */
}

PAIR_TEST(a_batch_that_exceeds_the_queue_is_rejected_whole, with_plain_ops)
{
    p->client.memory[0] = 1;
    struct ibv_qp_ex *qp = start(p, 1);
    for (unsigned i = 0; i < 17; ++i) /* the queue has 16 entries */
        add_write(p, i, 1);
    assert_int_equal(ibv_wr_complete(qp), ENOMEM);
    static uint8_t long_text[65];
    qp = start(p, 1);
    add_write(p, 0, 1);
    ibv_wr_rdma_write(qp, p->server.mr->rkey, remote(p, 8));
    ibv_wr_set_inline_data(qp, long_text, sizeof(long_text));
    assert_int_equal(ibv_wr_complete(qp), EINVAL);
    const struct ibv_data_buf endless[] = {{long_text, 1}, {long_text, SIZE_MAX}};
    qp = start(p, 1);
    ibv_wr_send(qp);
    ibv_wr_set_inline_data_list(qp, 2, endless);
    assert_int_equal(ibv_wr_complete(qp), EINVAL);
    post_and_expect(&p->client, IBV_WR_RDMA_WRITE, 9, 0, 1, &p->server, 100, IBV_WC_SUCCESS);
    for (unsigned i = 0; i < 17; ++i)
        assert_int_equal(p->server.memory[i], 0);
}

DEFINE_TEST(a_polled_completion_frees_its_entry, NULL, NULL)
{
    OPEN_PAIR(p, &(struct options){.send_ops = plain_ops, .depth = 2});
    for (unsigned i = 0; i < 10 * batches; ++i) {
        struct ibv_qp_ex *qp = start(&p, i);
        for (unsigned j = 0; j < 2; ++j) {
            qp->wr_flags = j == 0 ? 0 : IBV_SEND_SIGNALED;
            add_write(&p, 64 * j, 64);
        }
        assert_int_equal(ibv_req_notify_cq(p.client.cq, 0), 0);
        assert_int_equal(ibv_wr_complete(qp), 0);
        take_cq_event(p.client.completions); /* a thread of the device executes the requests */
        expect_completion(p.client.cq, i, IBV_WC_SUCCESS);
    }
}

PAIR_TEST(an_inapplicable_setter_fails_the_batch, with_plain_ops)
{
    p->client.memory[0] = 1;
    struct ibv_sge pieces[17]; /* the limit is four */
    for (unsigned i = 0; i < 17; ++i)
        pieces[i] = sge_of(&p->client, 0, 1);
    for (unsigned too_many = 5; too_many <= 17; too_many += 12) {
        struct ibv_qp_ex *qp = start(p, 1);
        ibv_wr_rdma_write(qp, p->server.mr->rkey, remote(p, 0));
        ibv_wr_set_sge_list(qp, too_many, pieces);
        assert_int_equal(ibv_wr_complete(qp), EINVAL);
    }
    struct ibv_qp_ex *qp = start(p, 1);
    ibv_wr_set_sge(qp, p->client.mr->lkey, (uintptr_t)p->client.memory, 1); /* no request was added */
    assert_int_equal(ibv_wr_complete(qp), EINVAL);
    qp = start(p, 1);
    ibv_wr_set_inline_data(qp, p->client.memory, 1);
    assert_int_equal(ibv_wr_complete(qp), EINVAL);
    qp = start(p, 1);
    ibv_wr_rdma_read(qp, p->server.mr->rkey, remote(p, 0));
    ibv_wr_set_inline_data(qp, p->client.memory, 1); /* a READ takes no inline data */
    ibv_wr_rdma_write(qp, p->server.mr->rkey, remote(p, 0));
    ibv_wr_set_sge_list(qp, 1, pieces);
    assert_int_equal(ibv_wr_complete(qp), EINVAL);
    assert_int_equal(p->server.memory[0], 0);
    qp = start(p, 2);
    ibv_wr_rdma_write(qp, p->server.mr->rkey, remote(p, 0));
    ibv_wr_set_inline_data(qp, p->client.memory + 1, 8);
    ibv_wr_set_sge_list(qp, 4, pieces); /* replaces the list set before */
    assert_int_equal(ibv_wr_complete(qp), 0);
    expect_completion(p->client.cq, 2, IBV_WC_SUCCESS);
    assert_int_equal(p->server.memory[3], 1);
    assert_int_equal(p->server.memory[4], 0);
}

static int write_bytes(struct pair *p, unsigned count)
{
    struct ibv_qp_ex *qp = start(p, 1);
    for (unsigned i = 0; i < count; ++i)
        add_write(p, i, 1);
    return ibv_wr_complete(qp);
}

PAIR_TEST(unpolled_completions_limit_a_batch, with_plain_ops)
{
    assert_int_equal(write_bytes(p, 16), 0); /* fills all 16 entries */
    assert_int_equal(write_bytes(p, 1), ENOMEM);
    expect_completion(p->client.cq, 1, IBV_WC_SUCCESS);
    assert_int_equal(write_bytes(p, 2), ENOMEM);
    assert_int_equal(write_bytes(p, 1), 0);
    for (unsigned i = 0; i < 16; ++i)
        expect_completion(p->client.cq, 1, IBV_WC_SUCCESS);
}

static void *write_many(void *argument)
{
    struct pair *p = argument;
    for (unsigned i = 0; i < batches; ++i) {
        int error = 0;
        do {
            struct ibv_qp_ex *qp = start(p, 0);
            add_write(p, 0, 8);
            add_write(p, 8, 8);
            error = ibv_wr_complete(qp);
        } while (error == ENOMEM);
        assert_int_equal(error, 0);
    }
    return NULL;
}

DEFINE_TEST(threads_share_the_interface, NULL, NULL)
{
    OPEN_PAIR(p, &(struct options){.send_ops = plain_ops, .depth = batches}); /* the CQ has capacity for all of them */
    pthread_t threads[2];
    for (unsigned i = 0; i < 2; ++i)
        assert_int_equal(pthread_create(&threads[i], NULL, write_many, &p), 0);
    for (unsigned i = 0; i < 4 * batches; ++i)
        expect_completion(p.client.cq, 0, IBV_WC_SUCCESS);
    for (unsigned i = 0; i < 2; ++i)
        pthread_join(threads[i], NULL);
}

DEFINE_TEST(posting_before_the_connection_fails, NULL, NULL)
{
    PAIR p = {0};
    open_listener(&p, "127.0.0.1");
    resolve_client(&p, &(struct options){.send_ops = plain_ops});
    struct ibv_qp_ex *qp = start(&p, 1);
    ibv_wr_send(qp);
    assert_int_equal(ibv_wr_complete(qp), EINVAL);
}
