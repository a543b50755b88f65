// SPDX-License-Identifier: BSD-3-Clause
#include "support.h"

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
    struct rpma_srq_cfg *srq_cfg = NULL;
    assert_int_equal(rpma_srq_cfg_new(&srq_cfg), 0);
    assert_int_equal(rpma_srq_cfg_set_rq_size(srq_cfg, UINT32_MAX), 0);
    assert_int_equal(rpma_srq_cfg_set_rcq_size(srq_cfg, UINT32_MAX), 0);
    assert_int_equal(rpma_srq_new(peer, srq_cfg, &srq), 0);
    assert_int_equal(rpma_srq_cfg_delete(&srq_cfg), 0);
    assert_int_equal(fake_seen()->srq_attributes.attr.max_wr, UINT32_MAX);
    assert_int_equal(((struct ibv_cq *)fake_live(FAKE_CQ, 0))->cqe, INT32_MAX);
}
