// SPDX-License-Identifier: BSD-3-Clause
#include "support.h"

static void make_srq(uint32_t rq_size, uint32_t rcq_size)
{
    struct rpma_srq_cfg *srq_cfg = NULL;
    assert_int_equal(rpma_srq_cfg_new(&srq_cfg), 0);
    assert_int_equal(rpma_srq_cfg_set_rq_size(srq_cfg, rq_size), 0);
    assert_int_equal(rpma_srq_cfg_set_rcq_size(srq_cfg, rcq_size), 0);
    assert_int_equal(rpma_srq_new(peer, srq_cfg, &srq), 0);
    assert_int_equal(rpma_srq_cfg_delete(&srq_cfg), 0);
}

PEER_TEST(without_a_configuration_the_defaults_apply)
{
    struct rpma_cq *rcq = NULL;
    assert_int_equal(rpma_srq_new(peer, NULL, &srq), 0);
    assert_calls("ibv_create_srq ibv_create_comp_channel ibv_create_cq ibv_req_notify_cq");
    assert_null(fake_seen()->srq_attributes.srq_context);
    assert_int_equal(fake_seen()->srq_attributes.attr.max_wr, 20);
    assert_int_equal(fake_seen()->srq_attributes.attr.max_sge, 1);
    assert_int_equal(fake_seen()->srq_attributes.attr.srq_limit, 0);
    assert_int_equal(((struct ibv_cq *)fake_live(FAKE_CQ, 0))->cqe, 20);
    assert_int_equal(rpma_srq_get_rcq(srq, &rcq), 0);
    assert_non_null(rcq);
    int fd = -1;
    assert_int_equal(rpma_cq_get_fd(rcq, &fd), 0);
    assert_int_equal(fd, ((struct ibv_comp_channel *)fake_live(FAKE_COMP_CHANNEL, 0))->fd);
    fake_forget_calls();
    assert_int_equal(rpma_srq_delete(&srq), 0);
    assert_calls("ibv_destroy_cq ibv_destroy_comp_channel ibv_destroy_srq");
}

PEER_TEST(the_receive_queue_is_clamped_to_what_an_int_holds)
{
    make_srq(UINT32_MAX, UINT32_MAX);
    assert_int_equal(fake_seen()->srq_attributes.attr.max_wr, UINT32_MAX);
    assert_int_equal(((struct ibv_cq *)fake_live(FAKE_CQ, 0))->cqe, INT32_MAX);
}

PEER_TEST(a_receive_is_posted_to_the_shared_queue)
{
    make_srq(5, 5);
    mr = make_mr(peer);
    const struct ibv_mr *const face = fake_live(FAKE_MR, 0);
    errno = 77;
    assert_int_equal(rpma_srq_recv(srq, mr, 16, 32, CONTEXT), 0);
    assert_int_equal(errno, 77);
    const struct fake_work *const work = fake_last_work();
    assert_int_equal(work->kind, FAKE_WORK_SRQ_RECV);
    assert_ptr_equal(work->queue, fake_live(FAKE_SRQ, 0));
    assert_int_equal(work->wr_id, (uintptr_t)CONTEXT);
    assert_int_equal(work->num_sge, 1);
    assert_int_equal(work->sge.addr, (uintptr_t)test_memory + 16);
    assert_int_equal(work->sge.length, 32);
    assert_int_equal(work->sge.lkey, face->lkey);
    assert_false(work->has_next);
    assert_true(work->has_bad_wr);
}

PEER_TEST(a_receive_outside_the_region_is_refused)
{
    make_srq(5, 5);
    mr = make_mr(peer);
    assert_int_equal(rpma_srq_recv(srq, mr, 0, MR_SIZE + 1, NULL), RPMA_E_INVAL);
    assert_int_equal(rpma_srq_recv(srq, mr, MR_SIZE, 1, NULL), RPMA_E_INVAL);
    assert_int_equal(rpma_srq_recv(srq, mr, SIZE_MAX, 2, NULL), RPMA_E_INVAL);
    assert_int_equal(rpma_srq_recv(srq, mr, 0, 0x100000008, NULL), RPMA_E_INVAL);
    assert_int_equal(fake_work_count(), 0);
}
