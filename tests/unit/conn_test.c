// SPDX-License-Identifier: BSD-3-Clause
#include "support.h"

static struct rdma_cm_id *id;

static int begin(void **state)
{
    begin_conn_test(state);
    id = newest_id();
    return 0;
}

#define CONN_TEST(name) DEFINE_TEST(name, begin, end_test)

static void assert_private_data(const char *expected)
{
    struct rpma_conn_private_data pdata = {BOGUS, 9};
    assert_int_equal(rpma_conn_get_private_data(conn, &pdata), 0);
    if (expected == NULL) {
        assert_null(pdata.ptr);
        assert_int_equal(pdata.len, 0);
    } else {
        assert_int_equal(pdata.len, strlen(expected) + 1);
        assert_string_equal(pdata.ptr, expected);
    }
}

CONN_TEST(every_event_of_a_connection_is_mapped)
{
    const struct {
        enum rdma_cm_event_type from;
        enum rpma_conn_event to;
    } rows[] = {
            {RDMA_CM_EVENT_ESTABLISHED, RPMA_CONN_ESTABLISHED},
            {RDMA_CM_EVENT_CONNECT_ERROR, RPMA_CONN_LOST},
            {RDMA_CM_EVENT_DEVICE_REMOVAL, RPMA_CONN_LOST},
            {RDMA_CM_EVENT_DISCONNECTED, RPMA_CONN_CLOSED},
            {RDMA_CM_EVENT_TIMEWAIT_EXIT, RPMA_CONN_CLOSED},
            {RDMA_CM_EVENT_REJECTED, RPMA_CONN_REJECTED},
            {RDMA_CM_EVENT_UNREACHABLE, RPMA_CONN_UNREACHABLE},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); ++i) {
        fake_forget_calls();
        fake_event(id, rows[i].from, NULL, 0);
        const unsigned notices = log_count(RPMA_LOG_LEVEL_NOTICE);
        errno = 77;
        assert_int_equal(next_event(), rows[i].to);
        assert_int_equal(errno, 77);
        assert_calls("rdma_get_cm_event rdma_ack_cm_event");
        assert_int_equal(log_count(RPMA_LOG_LEVEL_NOTICE), notices + 1);
        assert_non_null(strstr(log_text(RPMA_LOG_LEVEL_NOTICE), rpma_utils_conn_event_2str(rows[i].to)));
    }
}

CONN_TEST(every_other_event_is_unknown_and_named)
{
    const enum rdma_cm_event_type others[] = {RDMA_CM_EVENT_ADDR_RESOLVED, RDMA_CM_EVENT_ADDR_ERROR,
            RDMA_CM_EVENT_ROUTE_RESOLVED, RDMA_CM_EVENT_ROUTE_ERROR, RDMA_CM_EVENT_CONNECT_RESPONSE,
            RDMA_CM_EVENT_MULTICAST_JOIN, RDMA_CM_EVENT_MULTICAST_ERROR, RDMA_CM_EVENT_ADDR_CHANGE};
    for (unsigned i = 0; i < sizeof(others) / sizeof(others[0]); ++i) {
        // The log must not contain the initial value of the caller's variable.
        enum rpma_conn_event event = RPMA_CONN_REJECTED;
        fake_event(id, others[i], NULL, 0);
        assert_int_equal(rpma_conn_next_event(conn, &event), RPMA_E_UNKNOWN);
        assert_int_equal(event, RPMA_CONN_REJECTED);
        assert_int_equal(log_count(RPMA_LOG_LEVEL_WARNING), i + 1);
        assert_non_null(strstr(log_text(RPMA_LOG_LEVEL_WARNING), rdma_event_str(others[i])));
        assert_null(strstr(log_text(RPMA_LOG_LEVEL_WARNING), "rejected"));
    }
}

CONN_TEST(an_empty_nonblocking_channel_is_no_event)
{
    enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
    set_nonblocking(id->channel->fd);
    assert_int_equal(rpma_conn_next_event(conn, &event), RPMA_E_NO_EVENT);
    fake_fail_call(1, ENODATA, false);
    assert_int_equal(rpma_conn_next_event(conn, &event), RPMA_E_NO_EVENT);
    assert_int_equal(event, RPMA_CONN_UNDEFINED);
    assert_int_equal(log_count(RPMA_LOG_LEVEL_ERROR), 0);
    assert_int_equal(log_count(RPMA_LOG_LEVEL_WARNING), 0);
}

CONN_TEST(the_established_event_contains_the_reply_data)
{
    assert_private_data(NULL);
    fake_event(id, RDMA_CM_EVENT_ESTABLISHED, "answer", 7);
    assert_int_equal(next_event(), RPMA_CONN_ESTABLISHED);
    assert_private_data("answer");
    fake_event(id, RDMA_CM_EVENT_ESTABLISHED, "another", 8);
    assert_int_equal(next_event(), RPMA_CONN_ESTABLISHED);
    assert_private_data("answer");
}

CONN_TEST(private_data_of_other_events_is_dropped)
{
    fake_event(id, RDMA_CM_EVENT_REJECTED, "no", 3);
    assert_int_equal(next_event(), RPMA_CONN_REJECTED);
    assert_private_data(NULL);
}

CONN_TEST(private_data_without_memory_is_nomem_and_the_event_acknowledged)
{
    enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
    fake_event(id, RDMA_CM_EVENT_ESTABLISHED, "answer", 7);
    fake_libc_fail(FAKE_MALLOC, 1, false);
    assert_int_equal(rpma_conn_next_event(conn, &event), RPMA_E_NOMEM);
    assert_int_equal(event, RPMA_CONN_UNDEFINED);
    assert_calls("rdma_get_cm_event rdma_ack_cm_event");
    assert_private_data(NULL);
}

CONN_TEST(a_failed_acknowledgement_keeps_private_data_handed_out_before)
{
    enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
    struct rpma_conn_private_data before, after;
    fake_event(id, RDMA_CM_EVENT_ESTABLISHED, "answer", 7);
    assert_int_equal(next_event(), RPMA_CONN_ESTABLISHED);
    assert_int_equal(rpma_conn_get_private_data(conn, &before), 0);
    fake_event(id, RDMA_CM_EVENT_DISCONNECTED, NULL, 0);
    fake_fail_call(2, EIO, false);
    assert_provider(rpma_conn_next_event(conn, &event), EIO);
    assert_int_equal(event, RPMA_CONN_UNDEFINED);
    assert_int_equal(rpma_conn_get_private_data(conn, &after), 0);
    assert_ptr_equal(before.ptr, after.ptr);
    assert_private_data("answer");
}

CONN_TEST(a_failed_acknowledgement_drops_what_came_with_the_event)
{
    enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
    fake_event(id, RDMA_CM_EVENT_ESTABLISHED, "answer", 7);
    fake_fail_call(2, EIO, false);
    assert_provider(rpma_conn_next_event(conn, &event), EIO);
    assert_private_data(NULL);
}

CONN_TEST(disconnecting_notifies_the_peer)
{
    assert_done(rpma_conn_disconnect(conn));
    assert_calls("rdma_disconnect");
    fake_fail_call(1, EINVAL, false);
    assert_provider(rpma_conn_disconnect(conn), EINVAL);
}

CONN_TEST(deleting_destroys_the_queue_pair_before_the_buffer_of_flush)
{
    assert_done(rpma_conn_delete(&conn));
    assert_calls("rdma_destroy_qp ibv_dereg_mr ibv_destroy_cq ibv_destroy_comp_channel rdma_destroy_id "
                 "rdma_destroy_event_channel");
    assert_int_equal(rpma_conn_delete(&conn), 0);
}

CONN_TEST(a_page_that_cannot_be_unmapped_is_invalid)
{
    fake_libc_fail(FAKE_MUNMAP, 1, false);
    assert_int_equal(rpma_conn_delete(&conn), RPMA_E_INVAL);
    assert_null(conn);
    assert_true(fake_libc_failed(FAKE_MUNMAP));

    conn = make_conn(peer, NULL);
    fake_libc_fail(FAKE_MUNMAP, 1, false);
    fake_fail_call(1, EIO, false);
    assert_provider(rpma_conn_delete(&conn), EIO);
    assert_null(conn);
    assert_int_equal(rpma_peer_delete(&peer), RPMA_E_PROVIDER);
}
