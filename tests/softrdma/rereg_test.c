/* SPDX-License-Identifier: BSD-3-Clause */
/* Tests of ibv_rereg_mr(). */
#include "fixture.h"

static void use(struct pair *p, enum ibv_wr_opcode opcode, const uint8_t *at, enum ibv_wc_status status)
{
    struct side target = p->server;
    target.memory = (uint8_t *)(uintptr_t)at;
    post_and_expect(&p->client, opcode, 1, 0, 8, &target, 0, status);
}

static int change(struct pair *p, int what, struct ibv_pd *pd, void *addr, size_t length, int access)
{
    return ibv_rereg_mr(p->server.mr, what, pd, addr, length, access);
}

PAIR_TEST(a_revoked_right_is_not_in_the_key, connected)
{
    use(p, IBV_WR_RDMA_WRITE, p->server.memory, IBV_WC_SUCCESS);
    assert_int_equal(change(p, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, IBV_ACCESS_REMOTE_READ), 0);
    use(p, IBV_WR_RDMA_READ, p->server.memory, IBV_WC_SUCCESS);
    memset(p->client.memory, 1, 8);
    use(p, IBV_WR_RDMA_WRITE, p->server.memory, IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(p->server.memory[0], 0);
}

PAIR_TEST(a_granted_right_is_in_the_key, connected)
{
    assert_int_equal(change(p, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, 0), 0);
    assert_int_equal(change(p, IBV_REREG_MR_CHANGE_ACCESS, NULL, NULL, 0, (int)everything), 0);
    fill(p->client.memory, 8, 3);
    use(p, IBV_WR_RDMA_WRITE, p->server.memory, IBV_WC_SUCCESS);
    assert_memory_equal(p->server.memory, p->client.memory, 8);
}

PAIR_TEST(a_region_can_be_elsewhere, connected)
{
    uint8_t *elsewhere = calloc(1, 8192);
    use(p, IBV_WR_RDMA_WRITE, p->server.memory, IBV_WC_SUCCESS);
    assert_int_equal(change(p, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, elsewhere, 8192, 0), 0);
    assert_ptr_equal(p->server.mr->addr, elsewhere);
    assert_int_equal(p->server.mr->length, 8192);
    fill(p->client.memory, 8, 4);
    use(p, IBV_WR_RDMA_WRITE, elsewhere + 8184, IBV_WC_SUCCESS);
    assert_memory_equal(elsewhere + 8184, p->client.memory, 8);
    use(p, IBV_WR_RDMA_WRITE, p->server.memory, IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(ibv_dereg_mr(p->server.mr), 0);
    p->server.mr = ibv_reg_mr(p->server.pd, p->server.memory, 64, IBV_ACCESS_LOCAL_WRITE);
    free(elsewhere);
}

PAIR_TEST(a_region_can_go_to_another_domain, connected)
{
    struct ibv_pd *pd = ibv_alloc_pd(p->server.id->verbs);
    assert_int_equal(change(p, IBV_REREG_MR_CHANGE_PD, pd, NULL, 0, 0), 0);
    assert_ptr_equal(p->server.mr->pd, pd);
    assert_int_equal(ibv_dealloc_pd(pd), EBUSY);
    use(p, IBV_WR_RDMA_WRITE, p->server.memory, IBV_WC_REM_ACCESS_ERR);
    assert_int_equal(change(p, IBV_REREG_MR_CHANGE_PD, p->server.pd, NULL, 0, 0), 0);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
}

PAIR_TEST(a_domain_that_is_not_the_queue_pairs_serves_again_when_it_is, connected)
{
    struct ibv_pd *pd = ibv_alloc_pd(p->server.id->verbs);
    assert_int_equal(change(p, IBV_REREG_MR_CHANGE_PD, pd, NULL, 0, 0), 0);
    assert_int_equal(change(p, IBV_REREG_MR_CHANGE_PD, p->server.pd, NULL, 0, 0), 0);
    use(p, IBV_WR_RDMA_WRITE, p->server.memory, IBV_WC_SUCCESS);
    assert_int_equal(ibv_dealloc_pd(pd), 0);
}

PAIR_TEST(a_posted_receive_is_looked_up_again, connected)
{
    uint8_t *elsewhere = calloc(1, 4096);
    assert_int_equal(post_receive(&p->server, 7, 0, 64), 0);
    assert_int_equal(change(p, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, elsewhere, 4096, 0), 0);
    memset(p->client.memory, 1, 8);
    post_and_expect(&p->client, IBV_WR_SEND, 1, 0, 8, NULL, 0, IBV_WC_REM_OP_ERR);
    expect_completion(p->server.cq, 7, IBV_WC_LOC_PROT_ERR);
    assert_int_equal(p->server.memory[0], 0);
    assert_int_equal(change(p, IBV_REREG_MR_CHANGE_TRANSLATION, NULL, p->server.memory, 4096, 0), 0);
    free(elsewhere);
}

PAIR_TEST(invalid_arguments_change_nothing, connected)
{
    const struct {
        int what;
        void *addr;
        size_t length;
        int access;
        int error;
    } wrong[] = {{0, NULL, 0, 0, EINVAL}, {8, NULL, 0, 0, EINVAL}, {IBV_REREG_MR_CHANGE_PD, NULL, 0, 0, EINVAL},
            {IBV_REREG_MR_CHANGE_TRANSLATION, NULL, 64, 0, EINVAL},
            {IBV_REREG_MR_CHANGE_TRANSLATION, p->server.memory, 0, 0, EINVAL},
            {IBV_REREG_MR_CHANGE_TRANSLATION, (void *)(uintptr_t)4096, 64, 0, EFAULT},
            {IBV_REREG_MR_CHANGE_ACCESS, NULL, 0, IBV_ACCESS_REMOTE_WRITE, EINVAL},
            {IBV_REREG_MR_CHANGE_ACCESS, NULL, 0, IBV_ACCESS_ON_DEMAND, EOPNOTSUPP}};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); ++i) {
        errno = 0;
        assert_int_equal(change(p, wrong[i].what, NULL, wrong[i].addr, wrong[i].length, wrong[i].access),
                IBV_REREG_MR_ERR_INPUT);
        assert_int_equal(errno, wrong[i].error);
    }
    fill(p->client.memory, 8, 5);
    use(p, IBV_WR_RDMA_WRITE, p->server.memory, IBV_WC_SUCCESS);
    assert_memory_equal(p->server.memory, p->client.memory, 8);
}
