// SPDX-License-Identifier: BSD-3-Clause
#include "../driver/suite.h"
#include "../support/rdma.h"

#include <netdb.h>

SUITE(conn_req);

#define NO_REQUEST ((struct rpma_conn_req *)(uintptr_t)64)
#define NO_CONNECTION ((struct rpma_conn *)(uintptr_t)64)

/* A connection request at each end. The passive side has not accepted yet. */
struct meeting {
    struct listener listener;
    struct rpma_conn *active;
    struct rpma_conn_req *incoming;
};

static struct meeting meet(void)
{
    struct meeting meeting = {.listener = listen_somewhere(new_peer())};
    meeting.active = call_listener(&meeting.listener);
    meeting.incoming = next_request(meeting.listener.ep, NULL);
    return meeting;
}

static void preparing_refused(const char *addr, const char *port)
{
    struct rpma_conn_req *req = NO_REQUEST;
    assert_rpma(rpma_conn_req_new(new_peer(), addr, port, NULL, &req), RPMA_E_PROVIDER);
    assert_ptr_equal(req, NO_REQUEST);
}

CALL_CASE(an_unknown_service_is_a_provider_error, preparing_refused(case_address, "no such port"));

CASE(a_port_may_be_given_by_name)
{
    if (!getservbyname("http", "tcp"))
        skip_because("no service with a known name (/etc/services)");
    new_request(new_peer(), "http", NULL);
}

CALL_CASE(text_that_is_no_address_is_a_provider_error, preparing_refused("no such host!", "7204"));

/* Expects that an incoming request is refused with the configuration. Returns the other side. */
static struct rpma_conn *refuse_request(const struct listener *listener, const struct rpma_conn_cfg *cfg, int error)
{
    struct rpma_conn *active = call_listener(listener);
    struct rpma_conn_req *req = NO_REQUEST;
    assert_rpma(rpma_ep_next_conn_req(listener->ep, cfg, &req), error);
    assert_ptr_equal(req, NO_REQUEST);
    return active;
}

/* name, setter; the cases set the maximum, which exceeds the limit of every device */
#define LIMITS(ROW)                                                                                                    \
    ROW(completion_queue, rpma_conn_cfg_set_cq_size)                                                                   \
    ROW(receive_completion_queue, rpma_conn_cfg_set_rcq_size)                                                          \
    ROW(send_queue, rpma_conn_cfg_set_sq_size)                                                                         \
    ROW(receive_queue, rpma_conn_cfg_set_rq_size)

#define LIMIT_CASE(name, setter)                                                                                       \
    CASE(a_##name##_beyond_the_device_is_a_provider_error)                                                             \
    {                                                                                                                  \
        struct rpma_conn_cfg *cfg = new_cfg();                                                                         \
        struct rpma_conn_req *req = NO_REQUEST;                                                                        \
        assert_done(setter(cfg, UINT32_MAX));                                                                          \
        assert_rpma(rpma_conn_req_new(new_peer(), case_address, "7204", cfg, &req), RPMA_E_PROVIDER);                  \
        assert_ptr_equal(req, NO_REQUEST);                                                                             \
    }                                                                                                                  \
    CASE(a_##name##_beyond_the_device_rejects_the_incoming_request)                                                    \
    {                                                                                                                  \
        struct listener listener = listen_somewhere(new_peer());                                                       \
        struct rpma_conn_cfg *cfg = new_cfg();                                                                         \
        assert_done(setter(cfg, UINT32_MAX));                                                                          \
        expect_event(refuse_request(&listener, cfg, RPMA_E_PROVIDER), RPMA_CONN_REJECTED);                             \
    }
LIMITS(LIMIT_CASE)

static struct rpma_conn_cfg *contradictory_cfg(struct rpma_peer *peer)
{
    struct rpma_conn_cfg *cfg = new_cfg();
    assert_done(rpma_conn_cfg_set_compl_channel(cfg, true));
    assert_done(rpma_conn_cfg_set_srq(cfg, new_srq(peer, 4, 4)));
    return cfg;
}

CASE(a_shared_channel_contradicts_a_shared_queue_with_its_own_cq)
{
    struct rpma_peer *peer = new_peer();
    struct rpma_conn_req *req = NO_REQUEST;
    assert_rpma(rpma_conn_req_new(peer, case_address, "7204", contradictory_cfg(peer), &req), RPMA_E_INVAL);
    assert_ptr_equal(req, NO_REQUEST);
}

CASE(a_contradictory_cfg_is_refused_at_the_endpoint)
{
    struct listener listener = listen_somewhere(new_peer());
    refuse_request(&listener, contradictory_cfg(listener.peer), RPMA_E_INVAL);
}

CASE(a_contradictory_cfg_rejects_the_incoming_request)
{
    struct listener listener = listen_somewhere(new_peer());
    struct rpma_conn *active = refuse_request(&listener, contradictory_cfg(listener.peer), RPMA_E_INVAL);
    expect_event(active, RPMA_CONN_REJECTED);
}

CASE(the_endpoint_works_after_a_request_that_cannot_be_created)
{
    struct listener listener = listen_somewhere(new_peer());
    refuse_request(&listener, contradictory_cfg(listener.peer), RPMA_E_INVAL);
    struct rpma_conn *second = call_listener(&listener);
    connect_request(next_request(listener.ep, NULL), NULL);
    expect_event(second, RPMA_CONN_ESTABLISHED);
}

static void refuse_to_connect(struct rpma_conn_req *req, const struct rpma_conn_private_data *pdata)
{
    struct rpma_conn *conn = NO_CONNECTION;
    assert_rpma(rpma_conn_req_connect(&req, pdata, &conn), RPMA_E_INVAL);
    assert_null(req);
    assert_ptr_equal(conn, NO_CONNECTION);
}

CALL_CASE(connecting_no_request_is_refused, refuse_to_connect(NULL, NULL));

static char byte = 'x';

/* name, private data */
#define BAD_PRIVATE_DATA(ROW)                                                                                          \
    ROW(private_data_without_pointer, NULL, 1)                                                                         \
    ROW(private_data_of_length_0, &byte, 0)                                                                            \
    ROW(empty_private_data, NULL, 0)

#define BAD_PRIVATE_DATA_CASE(name, pointer, length)                                                                   \
    CASE(name##_consumes_an_outgoing_request)                                                                          \
    {                                                                                                                  \
        struct rpma_conn_private_data pdata = {pointer, length};                                                       \
        refuse_to_connect(new_request(new_peer(), "7204", NULL), &pdata);                                              \
    }                                                                                                                  \
    CASE(name##_rejects_an_incoming_request)                                                                           \
    {                                                                                                                  \
        struct meeting meeting = meet();                                                                               \
        struct rpma_conn_private_data pdata = {pointer, length};                                                       \
        refuse_to_connect(meeting.incoming, &pdata);                                                                   \
        expect_event(meeting.active, RPMA_CONN_REJECTED);                                                              \
    }
BAD_PRIVATE_DATA(BAD_PRIVATE_DATA_CASE)

CASE(without_an_output_an_outgoing_request_is_consumed)
{
    struct rpma_conn_req *req = new_request(new_peer(), "7204", NULL);
    assert_rpma(rpma_conn_req_connect(&req, NULL, NULL), RPMA_E_INVAL);
    assert_null(req);
}

CASE(without_an_output_an_incoming_request_is_rejected)
{
    struct meeting meeting = meet();
    assert_rpma(rpma_conn_req_connect(&meeting.incoming, NULL, NULL), RPMA_E_INVAL);
    assert_null(meeting.incoming);
    expect_event(meeting.active, RPMA_CONN_REJECTED);
}

CASE(a_receive_on_an_outgoing_request_gets_the_first_message)
{
    struct listener listener = listen_somewhere(new_peer());
    struct region memory = new_region(listener.peer, 4096, USAGE_ALL);
    struct rpma_conn_req *req = new_request(listener.peer, listener.port, NULL);
    assert_done(rpma_conn_req_recv(req, memory.mr, 64, 512, &memory));
    struct rpma_conn *active = connect_request(req, NULL);
    struct rpma_conn *passive = connect_request(next_request(listener.ep, NULL), NULL);
    expect_event(active, RPMA_CONN_ESTABLISHED);
    expect_event(passive, RPMA_CONN_ESTABLISHED);
    fill(memory.ptr + 2048, 512, 3);
    assert_done(rpma_send(passive, memory.mr, 2048, 512, ALWAYS, &listener.peer));
    expect_success(main_cq(passive), IBV_WC_SEND, &listener.peer);
    assert_int_equal(expect_success(main_cq(active), IBV_WC_RECV, &memory).byte_len, 512);
    assert_filled(memory.ptr + 64, 512, 3);
}

CASE(a_receive_on_an_incoming_request_gets_the_first_message)
{
    struct meeting meeting = meet();
    struct region memory = new_region(meeting.listener.peer, 4096, USAGE_ALL);
    assert_done(rpma_conn_req_recv(meeting.incoming, memory.mr, 0, 64, &memory));
    struct rpma_conn *passive = connect_request(meeting.incoming, NULL);
    expect_event(meeting.active, RPMA_CONN_ESTABLISHED);
    fill(memory.ptr + 64, 64, 7);
    assert_done(rpma_send(meeting.active, memory.mr, 64, 64, ALWAYS, NULL));
    expect_success(main_cq(passive), IBV_WC_RECV, &memory);
    assert_filled(memory.ptr, 64, 7);
}

CASE(a_receive_outside_the_region_is_refused)
{
    struct rpma_peer *peer = new_peer();
    struct region memory = new_region(peer, 4096, USAGE_ALL);
    struct rpma_conn_req *req = new_request(peer, "7204", NULL);
    assert_rpma(rpma_conn_req_recv(req, memory.mr, 4000, 97, NULL), RPMA_E_INVAL);
    assert_rpma(rpma_conn_req_recv(req, memory.mr, SIZE_MAX, 2, NULL), RPMA_E_INVAL);
}

CASE(more_receives_than_the_queue_holds_are_a_provider_error)
{
    struct rpma_peer *peer = new_peer();
    struct region memory = new_region(peer, 4096, USAGE_ALL);
    struct rpma_conn_cfg *cfg = new_cfg();
    assert_done(rpma_conn_cfg_set_rq_size(cfg, 4));
    struct rpma_conn_req *req = new_request(peer, "7204", cfg);
    int result = 0;
    int posted = 0;
    /* A device may round the size up. */
    while (posted < 100000 && (result = rpma_conn_req_recv(req, memory.mr, 0, 64, NULL)) == 0)
        ++posted;
    assert_true(posted >= 4);
    assert_rpma(result, RPMA_E_PROVIDER);
}

CASE(a_request_prepared_without_a_listener_can_be_given_up_with_receives_posted)
{
    char port[8];
    pick_port(port);
    struct rpma_peer *peer = new_peer();
    struct region memory = new_region(peer, 4096, USAGE_ALL);
    struct rpma_conn_req *req = new_request(peer, port, NULL);
    assert_done(rpma_conn_req_recv(req, memory.mr, 0, 64, NULL));
    assert_done(rpma_conn_req_delete(&req));
    assert_null(req);
    assert_done(rpma_conn_req_delete(&req));
    assert_done(rpma_mr_dereg(&memory.mr));
    assert_done(rpma_peer_delete(&peer));
}

CASE(a_rejected_request_leaves_nothing_behind)
{
    struct meeting meeting = meet();
    assert_done(rpma_conn_req_delete(&meeting.incoming));
    assert_null(meeting.incoming);
    expect_event(meeting.active, RPMA_CONN_REJECTED);
    assert_done(rpma_conn_delete(&meeting.active));
    assert_done(rpma_ep_shutdown(&meeting.listener.ep));
    assert_done(rpma_peer_delete(&meeting.listener.peer));
}
