// SPDX-License-Identifier: BSD-3-Clause
#include "support.h"

SERVER_TEST(an_outgoing_request_resolves_and_builds_its_queues)
{
    assert_done(rpma_conn_req_new(peer, "server", "7204", NULL, &req));
    assert_calls("rdma_getaddrinfo rdma_create_id rdma_resolve_addr rdma_resolve_route ibv_create_comp_channel "
                 "ibv_create_cq ibv_req_notify_cq rdma_create_qp_ex rdma_freeaddrinfo");
    assert_string_equal(fake_seen()->node, "server");
    assert_string_equal(fake_seen()->service, "7204");
    assert_int_equal(fake_seen()->hints.ai_flags, 0);
    assert_int_equal(fake_seen()->hints.ai_qp_type, IBV_QPT_RC);
    assert_int_equal(fake_seen()->hints.ai_port_space, RDMA_PS_TCP);
    assert_int_equal(fake_seen()->resolve_addr_timeout_ms, 1000);
    assert_int_equal(fake_seen()->resolve_route_timeout_ms, 1000);
    assert_non_null(strstr(log_text(RPMA_LOG_LEVEL_NOTICE), "server:7204"));
    fake_forget_calls();
    assert_int_equal(rpma_conn_req_delete(&req), 0);
    assert_calls("rdma_destroy_qp ibv_destroy_cq ibv_destroy_comp_channel rdma_destroy_id");
}

SERVER_TEST(debug_builds_log_the_gids_of_a_request)
{
#ifdef RPMA_DEBUG_BUILD
    const bool is_logged = true;
#else
    const bool is_logged = false;
#endif
    drop_req(make_req(peer, NULL));
    assert_int_equal(strstr(log_texts(), "0000:0000:0000:0000:0000:ffff:c000:0201") != NULL, is_logged);
    assert_int_equal(strstr(log_texts(), "0000:0000:0000:0000:0000:ffff:c000:0200") != NULL, is_logged);
    drop_req(make_incoming_req(ep, NULL));
    assert_int_equal(strstr(log_texts(), "not available") != NULL, is_logged);
}

SERVER_TEST(the_queue_pair_has_the_documented_attributes)
{
    req = make_req(peer, NULL);
    const struct ibv_qp_init_attr_ex *const attributes = &fake_seen()->qp_attributes;
    assert_null(attributes->qp_context);
    assert_ptr_equal(attributes->send_cq, fake_live(FAKE_CQ, 0));
    assert_ptr_equal(attributes->recv_cq, fake_live(FAKE_CQ, 0));
    assert_null(attributes->srq);
    assert_int_equal(attributes->cap.max_send_wr, 10);
    assert_int_equal(attributes->cap.max_recv_wr, 10);
    assert_int_equal(attributes->cap.max_send_sge, 1);
    assert_int_equal(attributes->cap.max_recv_sge, 1);
    assert_int_equal(attributes->cap.max_inline_data, 8);
    assert_int_equal(attributes->qp_type, IBV_QPT_RC);
    assert_int_equal(attributes->sq_sig_all, 0);
    assert_int_equal(attributes->comp_mask, IBV_QP_INIT_ATTR_PD);
    assert_int_equal(attributes->send_ops_flags, 0);
    assert_ptr_equal(attributes->pd, fake_live(FAKE_PD, 0));
    assert_int_equal(((struct ibv_cq *)fake_live(FAKE_CQ, 0))->cqe, 10);
}

SERVER_TEST(the_configuration_is_read_during_the_call_only)
{
    cfg = make_cfg(false, UINT32_MAX);
    assert_int_equal(rpma_conn_cfg_set_timeout(cfg, 4034), 0);
    assert_int_equal(rpma_conn_cfg_set_cq_size(cfg, UINT32_MAX - 1), 0);
    assert_int_equal(rpma_conn_cfg_set_sq_size(cfg, UINT32_MAX), 0);
    assert_int_equal(rpma_conn_cfg_set_rq_size(cfg, UINT32_MAX - 2), 0);
    req = make_req(peer, cfg);
    assert_int_equal(rpma_conn_cfg_delete(&cfg), 0);
    const struct ibv_qp_init_attr_ex *const attributes = &fake_seen()->qp_attributes;
    assert_int_equal(fake_seen()->resolve_addr_timeout_ms, 4034);
    assert_int_equal(fake_seen()->resolve_route_timeout_ms, 4034);
    assert_int_equal(attributes->send_cq->cqe, INT32_MAX);
    assert_int_equal(attributes->recv_cq->cqe, INT32_MAX);
    assert_ptr_not_equal(attributes->recv_cq, attributes->send_cq);
    assert_int_equal(attributes->cap.max_send_wr, UINT32_MAX);
    assert_int_equal(attributes->cap.max_recv_wr, UINT32_MAX - 2);
}

SERVER_TEST(a_shared_channel_serves_both_queues)
{
    cfg = make_cfg(true, 16);
    req = make_req(peer, cfg);
    const struct ibv_qp *const qp = newest_qp();
    assert_int_equal(fake_count(FAKE_COMP_CHANNEL), 1);
    assert_ptr_equal(qp->send_cq->channel, qp->recv_cq->channel);
    fake_forget_calls();
    assert_int_equal(rpma_conn_req_delete(&req), 0);
    assert_calls("rdma_destroy_qp ibv_destroy_cq ibv_destroy_cq rdma_destroy_id ibv_destroy_comp_channel");
}

SERVER_TEST(every_resolved_address_is_tried_with_an_identifier_of_its_own)
{
    fake_device()->addresses = 4;
    fake_device()->bad_addresses = 1;
    fake_device()->bad_routes = 3;
    drop_req(make_req(peer, NULL));
    assert_non_null(strstr(fake_calls(), "rdma_create_id rdma_resolve_addr rdma_destroy_id "
                                         "rdma_create_id rdma_resolve_addr rdma_resolve_route rdma_destroy_id "
                                         "rdma_create_id rdma_resolve_addr rdma_resolve_route rdma_destroy_id "
                                         "rdma_create_id rdma_resolve_addr rdma_resolve_route ibv_create"));
}

SERVER_TEST(the_first_error_counts_when_no_address_works)
{
    struct rpma_conn_req *created = BOGUS;
    fake_device()->addresses = 2;
    fake_device()->bad_routes = 2;
    fake_device()->bad_addresses = 1;
    assert_provider(rpma_conn_req_new(peer, "server", "7204", NULL, &created), EHOSTUNREACH);
    // A failure at a later address must not replace the error of the first one.
    fake_fail_only("rdma_create_id");
    fake_fail_call(2, EMFILE, false);
    assert_provider(rpma_conn_req_new(peer, "server", "7204", NULL, &created), EHOSTUNREACH);
    assert_string_equal(fake_failed_call(), "rdma_create_id");
    assert_ptr_equal(created, BOGUS);
}

SERVER_TEST(queue_pairs_are_retried_without_native_operations)
{
    const int errors[] = {EOPNOTSUPP, ENOTSUP};
    fake_make_native();
    drop_objects();
    peer = make_peer();
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); ++i) {
        fake_device()->send_ops_error = errors[i];
        fake_forget_calls();
        errno = 77;
        drop_req(make_req(peer, NULL));
        assert_int_equal(errno, 77);
        assert_non_null(strstr(fake_calls(), "rdma_create_qp_ex rdma_create_qp_ex"));
        assert_int_equal(fake_seen()->qp_attributes.comp_mask, IBV_QP_INIT_ATTR_PD);
        assert_int_equal(fake_seen()->qp_attributes.send_ops_flags, 0);
    }
    fake_device()->send_ops_error = EINVAL;
    struct rpma_conn_req *created = BOGUS;
    fake_forget_calls();
    assert_provider(rpma_conn_req_new(peer, "server", "7204", NULL, &created), EINVAL);
    assert_null(strstr(fake_calls(), "rdma_create_qp_ex rdma_create_qp_ex"));
}
