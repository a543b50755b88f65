// SPDX-License-Identifier: BSD-3-Clause
#include "support.h"

#define BUILT                                                                                                          \
    "rdma_get_cm_event ibv_create_comp_channel ibv_create_cq ibv_req_notify_cq rdma_create_qp_ex "                     \
    "rdma_create_event_channel rdma_migrate_id rdma_ack_cm_event"

SERVER_TEST(listening_binds_the_resolved_address)
{
    struct rpma_ep *another = make_ep(peer);
    assert_calls("rdma_create_event_channel rdma_create_id rdma_getaddrinfo rdma_bind_addr rdma_listen "
                 "rdma_freeaddrinfo");
    assert_string_equal(fake_seen()->node, "here");
    assert_string_equal(fake_seen()->service, "7204");
    assert_int_equal(fake_seen()->hints.ai_flags, RAI_PASSIVE);
    assert_int_equal(fake_seen()->hints.ai_qp_type, IBV_QPT_RC);
    assert_int_equal(fake_seen()->hints.ai_port_space, RDMA_PS_TCP);
    assert_int_equal(fake_seen()->backlog, 0);
    assert_non_null(strstr(log_text(RPMA_LOG_LEVEL_NOTICE), "192.0.2.0:7204"));
    fake_forget_calls();
    drop_ep(another);
    assert_calls("rdma_destroy_id rdma_destroy_event_channel");
}

SERVER_TEST(listening_takes_the_first_address_that_can_be_bound)
{
    fake_device()->addresses = 3;
    fake_device()->bad_addresses = 2;
    drop_ep(make_ep(peer));
    assert_non_null(strstr(log_text(RPMA_LOG_LEVEL_NOTICE), "192.0.2.2:7204"));
}

SERVER_TEST(a_port_that_the_resolver_would_alter_is_rejected)
{
    static const char *const invalid[] = {
            "65536", "72040", "00065536", "99999999999999999999", "", " 7390", "-1", "+1", "."};
    for (size_t i = 0; i < sizeof(invalid) / sizeof(invalid[0]); ++i) {
        struct rpma_ep *another = BOGUS;
        struct rpma_conn_req *created = BOGUS;
        assert_int_equal(rpma_ep_listen(peer, "here", invalid[i], &another), RPMA_E_INVAL);
        assert_int_equal(rpma_conn_req_new(peer, "there", invalid[i], NULL, &created), RPMA_E_INVAL);
        assert_ptr_equal(another, BOGUS);
        assert_ptr_equal(created, BOGUS);
        assert_int_equal(log_count(RPMA_LOG_LEVEL_ERROR), 2 * (i + 1));
    }
    assert_null(strstr(fake_calls(), "rdma_getaddrinfo"));
    assert_non_null(strstr(log_text(RPMA_LOG_LEVEL_ERROR), "65535"));
    static const char *const valid[] = {"0", "65535", "0000000065535", "http", "Z39", "3com-tsmux", "70000-service"};
    for (size_t i = 0; i < sizeof(valid) / sizeof(valid[0]); ++i) {
        struct rpma_ep *another = NULL;
        assert_int_equal(rpma_ep_listen(peer, "here", valid[i], &another), 0);
        assert_string_equal(fake_seen()->service, valid[i]);
        drop_ep(another);
    }
}

SERVER_TEST(a_request_is_built_and_moved_to_its_own_channel_before_the_event_is_acknowledged)
{
    fake_incoming(NULL, 0);
    assert_done(rpma_ep_next_conn_req(ep, NULL, &req));
    assert_calls(BUILT);
}

SERVER_TEST(events_of_a_request_do_not_reach_the_endpoint)
{
    req = make_incoming_req(ep, NULL);
    fake_event(newest_id(), RDMA_CM_EVENT_ESTABLISHED, NULL, 0);
    int fd = -1;
    assert_int_equal(rpma_ep_get_fd(ep, &fd), 0);
    assert_false(is_readable(fd));
}

SERVER_TEST(the_configuration_decides_the_queues)
{
    cfg = make_cfg(false, 3);
    assert_int_equal(rpma_conn_cfg_set_cq_size(cfg, 13), 0);
    assert_int_equal(rpma_conn_cfg_set_sq_size(cfg, 14), 0);
    assert_int_equal(rpma_conn_cfg_set_rq_size(cfg, 15), 0);
    req = make_incoming_req(ep, cfg);
    assert_int_equal(rpma_conn_cfg_delete(&cfg), 0);
    const struct ibv_qp_init_attr_ex *const attributes = &fake_seen()->qp_attributes;
    assert_int_equal(attributes->send_cq->cqe, 13);
    assert_int_equal(attributes->recv_cq->cqe, 3);
    assert_int_equal(attributes->cap.max_send_wr, 14);
    assert_int_equal(attributes->cap.max_recv_wr, 15);
}

SERVER_TEST(an_empty_nonblocking_channel_is_no_event)
{
    int fd = -1;
    assert_int_equal(rpma_ep_get_fd(ep, &fd), 0);
    set_nonblocking(fd);
    struct rpma_conn_req *created = BOGUS;
    assert_int_equal(rpma_ep_next_conn_req(ep, NULL, &created), RPMA_E_NO_EVENT);
    fake_fail_call(1, ENODATA, false);
    assert_int_equal(rpma_ep_next_conn_req(ep, NULL, &created), RPMA_E_NO_EVENT);
    assert_ptr_equal(created, BOGUS);
    assert_int_equal(log_count(RPMA_LOG_LEVEL_ERROR), 0);
    assert_int_equal(log_count(RPMA_LOG_LEVEL_WARNING), 0);
}

SERVER_TEST(another_event_is_dropped_and_refused)
{
    struct rpma_conn_req *created = BOGUS;
    for (unsigned ack_fails = 0; ack_fails < 2; ++ack_fails) {
        fake_event(fake_live(FAKE_CM_ID, 0), RDMA_CM_EVENT_DEVICE_REMOVAL, NULL, 0);
        fake_forget_calls();
        fake_fail_call(2 * ack_fails, EIO, false);
        assert_int_equal(rpma_ep_next_conn_req(ep, NULL, &created), RPMA_E_INVAL);
        assert_ptr_equal(created, BOGUS);
        assert_memory_equal(fake_calls(), "rdma_get_cm_event", strlen("rdma_get_cm_event"));
        assert_non_null(strstr(fake_calls(), "rdma_ack_cm_event"));
    }
    assert_true(log_count(RPMA_LOG_LEVEL_ERROR) >= 2);
}

SERVER_TEST(a_request_that_cannot_be_built_is_rejected)
{
    struct rpma_conn_req *created = BOGUS;
    fake_incoming(NULL, 0);
    fake_fail_call(5, ENOMEM, false);
    assert_provider(rpma_ep_next_conn_req(ep, NULL, &created), ENOMEM);
    assert_string_equal(fake_failed_call(), "rdma_create_qp_ex");
    assert_ptr_equal(created, BOGUS);
    assert_calls("rdma_get_cm_event ibv_create_comp_channel ibv_create_cq ibv_req_notify_cq rdma_create_qp_ex "
                 "ibv_destroy_cq ibv_destroy_comp_channel rdma_reject rdma_destroy_id rdma_ack_cm_event");
}

SERVER_TEST(a_request_without_private_data_contains_none)
{
    struct rpma_conn_private_data pdata = {BOGUS, 9};
    fake_incoming(NULL, 0);
    assert_int_equal(rpma_ep_next_conn_req(ep, NULL, &req), 0);
    assert_int_equal(rpma_conn_req_get_private_data(req, &pdata), 0);
    assert_int_equal(pdata.len, 0);
    assert_null(pdata.ptr);
}
