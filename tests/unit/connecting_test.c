// SPDX-License-Identifier: BSD-3-Clause
#include "support.h"

#include <stdlib.h>

// rpma_conn_req_connect, both sides.

static void assert_parameters(void)
{
    const struct rdma_conn_param *const parameters = &fake_seen()->connect_parameters;
    assert_int_equal(parameters->responder_resources, RDMA_MAX_RESP_RES);
    assert_int_equal(parameters->initiator_depth, RDMA_MAX_INIT_DEPTH);
    assert_int_equal(parameters->flow_control, 1);
    assert_int_equal(parameters->retry_count, 7);
    assert_int_equal(parameters->rnr_retry_count, 7);
    assert_int_equal(parameters->srq, 0);
    assert_int_equal(parameters->qp_num, 0);
    assert_int_equal(parameters->private_data_len, 0);
    assert_null(parameters->private_data);
}

// Connects the request and stores the connection in conn. Returns the names of the provider calls.
static const char *connect_calls(struct rpma_conn_req *prepared)
{
    req = prepared;
    fake_forget_calls();
    assert_done(rpma_conn_req_connect(&req, NULL, &conn));
    assert_null(req);
    assert_parameters();
    return fake_calls();
}

SERVER_TEST(the_active_side_moves_to_its_own_channel_and_connects_last)
{
    assert_string_equal(
            connect_calls(make_req(peer, NULL)), "rdma_create_event_channel rdma_migrate_id ibv_reg_mr rdma_connect");
}

SERVER_TEST(the_passive_side_accepts_last)
{
    assert_string_equal(connect_calls(make_incoming_req(ep, NULL)), "ibv_reg_mr rdma_accept");
    assert_int_equal(rpma_conn_delete(&conn), 0);
    assert_null(strstr(fake_calls(), "rdma_reject"));
}

// A wait for an acknowledgement lasts 4096 ns * 2^exponent. 7 waits last at least the configured time; 6 would be
// shorter.
SERVER_TEST(a_peer_timeout_bounds_retries_and_waits)
{
    const struct {
        const char *timeout_ms;
        unsigned exponent;
    } rows[] = {{"1", 6}, {"28", 10}, {"3000", 17}, {"60000", 21}, {"3600000", 27}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i) {
        setenv("RPMA_PEER_TIMEOUT_MS", rows[i].timeout_ms, 1);
        for (int incoming = 0; incoming < 2; ++incoming) {
            req = incoming ? make_incoming_req(ep, NULL) : make_req(peer, NULL);
            assert_int_equal(fake_seen()->ack_timeout, rows[i].exponent);
            assert_int_equal(rpma_conn_req_connect(&req, NULL, &conn), 0);
            if (!incoming)
                assert_int_equal(fake_seen()->connect_parameters.retry_count, 6);
            assert_int_equal(fake_seen()->connect_parameters.rnr_retry_count, 7);
            assert_int_equal(rpma_conn_delete(&conn), 0);
        }
    }
}

SERVER_TEST(without_a_peer_timeout_the_device_decides)
{
    req = make_req(peer, NULL);
    assert_null(strstr(fake_calls(), "rdma_set_option"));
}

SERVER_TEST(a_peer_timeout_that_is_none_is_refused_before_anything_is_called)
{
    const char *const wrong[] = {"", "0", "-1", "3600001", "99999999999999999999", "1s", "1 ", "soon"};
    for (unsigned i = 0; i < sizeof(wrong) / sizeof(wrong[0]); ++i) {
        setenv("RPMA_PEER_TIMEOUT_MS", wrong[i], 1);
        struct rpma_conn_req *created = BOGUS;
        fake_forget_calls();
        assert_int_equal(rpma_conn_req_new(peer, "server", "1234", NULL, &created), RPMA_E_INVAL);
        assert_calls("");
        assert_ptr_equal(created, BOGUS);
        assert_int_equal(log_count(RPMA_LOG_LEVEL_ERROR), i + 1);
        assert_non_null(strstr(log_text(RPMA_LOG_LEVEL_ERROR), "RPMA_PEER_TIMEOUT_MS"));
    }
    struct rpma_conn_req *created = BOGUS;
    fake_incoming("hello", 6);
    assert_int_equal(rpma_ep_next_conn_req(ep, NULL, &created), RPMA_E_INVAL);
    assert_ptr_equal(created, BOGUS);
    assert_non_null(strstr(fake_calls(), "rdma_reject"));
}

static void accept_conn(void)
{
    req = make_incoming_req(ep, NULL);
    assert_int_equal(rpma_conn_req_connect(&req, NULL, &conn), 0);
}

// Checks the next event, and the calls of the provider that return it.
static void expect_event(enum rpma_conn_event event, const char *calls)
{
    fake_forget_calls();
    assert_int_equal(next_event(), event);
    assert_calls(calls);
}

// The peer had established the connection, but its last handshake message was lost.
SERVER_TEST(a_disconnect_before_the_establishment_is_reported_as_both)
{
    accept_conn();
    fake_event(newest_id(), RDMA_CM_EVENT_DISCONNECTED, NULL, 0);
    fake_event(newest_id(), RDMA_CM_EVENT_TIMEWAIT_EXIT, NULL, 0);
    expect_event(RPMA_CONN_ESTABLISHED, "rdma_get_cm_event rdma_ack_cm_event rdma_disconnect");
    expect_event(RPMA_CONN_CLOSED, "");
    assert_int_equal(next_event(), RPMA_CONN_CLOSED);
}

SERVER_TEST(a_disconnection_after_establishment_is_reported_once)
{
    accept_conn();
    fake_event(newest_id(), RDMA_CM_EVENT_ESTABLISHED, NULL, 0);
    fake_event(newest_id(), RDMA_CM_EVENT_DISCONNECTED, NULL, 0);
    assert_int_equal(next_event(), RPMA_CONN_ESTABLISHED);
    assert_int_equal(next_event(), RPMA_CONN_CLOSED);
    set_nonblocking(newest_id()->channel->fd);
    enum rpma_conn_event event;
    assert_int_equal(rpma_conn_next_event(conn, &event), RPMA_E_NO_EVENT);
}

SERVER_TEST(a_local_disconnection_before_establishment_reports_no_establishment)
{
    accept_conn();
    assert_int_equal(rpma_conn_disconnect(conn), 0);
    fake_event(newest_id(), RDMA_CM_EVENT_DISCONNECTED, NULL, 0);
    expect_event(RPMA_CONN_CLOSED, "rdma_get_cm_event rdma_ack_cm_event rdma_disconnect"); // the last is for the peer
}

// The connection manager ignores a disconnection until it has received the last handshake message.
SERVER_TEST(a_disconnect_before_the_establishment_is_repeated)
{
    accept_conn();
    assert_int_equal(rpma_conn_disconnect(conn), 0);
    fake_event(newest_id(), RDMA_CM_EVENT_ESTABLISHED, NULL, 0);
    fake_event(newest_id(), RDMA_CM_EVENT_DISCONNECTED, NULL, 0);
    expect_event(RPMA_CONN_ESTABLISHED, "rdma_get_cm_event rdma_ack_cm_event rdma_disconnect");
    expect_event(RPMA_CONN_CLOSED, "rdma_get_cm_event rdma_ack_cm_event");
}

SERVER_TEST(a_failed_accept_rejects_the_request)
{
    req = make_incoming_req(ep, NULL);
    struct rpma_conn *created = BOGUS;
    fake_forget_calls();
    fake_fail_call(2, ECONNREFUSED, false);
    assert_provider(rpma_conn_req_connect(&req, NULL, &created), ECONNREFUSED);
    assert_null(req);
    assert_ptr_equal(created, BOGUS);
    assert_calls("ibv_reg_mr rdma_accept rdma_destroy_qp ibv_dereg_mr ibv_destroy_cq ibv_destroy_comp_channel "
                 "rdma_reject rdma_destroy_id rdma_destroy_event_channel");
}

SERVER_TEST(the_buffer_of_emulated_flush_is_8_bytes)
{
    conn = make_conn(peer, NULL);
    assert_int_equal(fake_seen()->mr_length, 8);
    assert_int_equal(fake_seen()->access, IBV_ACCESS_LOCAL_WRITE);
    assert_int_equal((uintptr_t)fake_seen()->mr_addr % 4096, 0);
    assert_int_equal(fake_count(FAKE_MR), 1);
}

SERVER_TEST(native_flush_needs_no_buffer)
{
    fake_make_native();
    drop_objects();
    peer = make_peer();
    const long mappings = fake_libc_mappings();
    conn = make_conn(peer, NULL);
    assert_int_equal(fake_count(FAKE_MR), 0);
    assert_int_equal(fake_libc_mappings(), mappings);
}

SERVER_TEST(a_connection_fails_if_the_size_of_its_buffer_for_flush_is_unknown)
{
    for (int incoming = 0; incoming < 2; ++incoming) {
        req = incoming ? make_incoming_req(ep, NULL) : make_req(peer, NULL);
        struct rpma_conn *created = BOGUS;
        fake_libc_fail(FAKE_SYSCONF, 1, false);
        assert_int_equal(rpma_conn_req_connect(&req, NULL, &created), RPMA_E_PROVIDER);
        assert_true(fake_libc_failed(FAKE_SYSCONF));
        assert_null(req);
        assert_ptr_equal(created, BOGUS);
    }
    assert_int_equal(log_count(RPMA_LOG_LEVEL_FATAL), 2);
}
