// SPDX-License-Identifier: BSD-3-Clause
#include "../driver/suite.h"
#include "../support/rdma.h"

SUITE(ep);

#define UNTOUCHED ((struct rpma_ep *)(uintptr_t)64)
#define NO_REQUEST ((struct rpma_conn_req *)(uintptr_t)64)

static void refused(const char *addr, const char *port)
{
    struct rpma_ep *ep = UNTOUCHED;
    assert_rpma(rpma_ep_listen(new_peer(), addr, port, &ep), RPMA_E_PROVIDER);
    assert_ptr_equal(ep, UNTOUCHED);
}

CASE(an_endpoint_listens_and_shuts_down)
{
    struct listener listener = listen_somewhere(new_peer());
    assert_non_null(listener.ep);
    assert_done(rpma_ep_shutdown(&listener.ep));
    assert_null(listener.ep);
    assert_done(rpma_ep_shutdown(&listener.ep));
}

CASE(an_address_in_use_is_a_provider_error)
{
    struct listener listener = listen_somewhere(new_peer());
    struct rpma_ep *second = UNTOUCHED;
    assert_provider(rpma_ep_listen(listener.peer, case_address, listener.port, &second), EADDRINUSE);
    assert_ptr_equal(second, UNTOUCHED);
}

CASE(a_port_is_free_again_after_the_shutdown)
{
    struct listener listener = listen_somewhere(new_peer());
    for (int i = 0; i < 5; ++i) {
        assert_done(rpma_ep_shutdown(&listener.ep));
        assert_done(rpma_ep_listen(listener.peer, case_address, listener.port, &listener.ep));
    }
}

CALL_CASE(an_unknown_service_is_a_provider_error, refused(case_address, "no such port"));
CALL_CASE(text_that_is_no_address_is_a_provider_error, refused("no such host!", "7204"));
CALL_CASE(an_address_of_another_machine_is_a_provider_error,
        refused("192.0.2.1" /* documentation only, no machine has it */, "7204"));

CASE(many_endpoints_share_a_peer)
{
    struct rpma_peer *peer = new_peer();
    int fds[8];
    for (int i = 0; i < 8; ++i) {
        fds[i] = ep_fd(listen_somewhere(peer).ep);
        for (int j = 0; j < i; ++j)
            assert_int_not_equal(fds[i], fds[j]);
    }
}

CASE(the_descriptor_stays_the_same)
{
    struct listener listener = listen_somewhere(new_peer());
    assert_int_equal(ep_fd(listener.ep), ep_fd(listener.ep));
}

CASE(the_descriptor_is_readable_when_a_request_waits)
{
    struct listener listener = listen_somewhere(new_peer());
    assert_not_readable(ep_fd(listener.ep));
    call_listener(&listener);
    await_readable(ep_fd(listener.ep));
    next_request(listener.ep, NULL);
    assert_not_readable(ep_fd(listener.ep));
}

CASE(without_a_request_a_nonblocking_endpoint_has_no_event)
{
    struct listener listener = listen_somewhere(new_peer());
    make_nonblocking(ep_fd(listener.ep));
    for (int i = 0; i < 3; ++i) {
        struct rpma_conn_req *req = NO_REQUEST;
        assert_rpma(rpma_ep_next_conn_req(listener.ep, NULL, &req), RPMA_E_NO_EVENT);
        assert_ptr_equal(req, NO_REQUEST);
    }
}

CASE(a_nonblocking_endpoint_takes_requests)
{
    struct listener listener = listen_somewhere(new_peer());
    make_nonblocking(ep_fd(listener.ep));
    struct rpma_conn *active = call_listener(&listener);
    await_readable(ep_fd(listener.ep));
    connect_request(next_request(listener.ep, NULL), NULL);
    expect_event(active, RPMA_CONN_ESTABLISHED);
}

CASE(preparing_a_request_does_not_reach_the_endpoint)
{
    struct listener listener = listen_somewhere(new_peer());
    struct rpma_conn_req *req = new_request(listener.peer, listener.port, NULL);
    assert_not_readable(ep_fd(listener.ep));
    assert_done(rpma_conn_req_delete(&req));
    assert_not_readable(ep_fd(listener.ep));
}

CASE(requests_are_taken_in_the_order_of_their_arrival)
{
    struct listener listener = listen_somewhere(new_peer());
    for (unsigned char i = 1; i <= 5; ++i) {
        struct rpma_conn_private_data pdata = {&i, 1};
        connect_request(new_request(listener.peer, listener.port, NULL), &pdata);
        if (i == 1)
            await_readable(ep_fd(listener.ep));
        usleep(20000);
    }
    for (unsigned char i = 1; i <= 5; ++i) {
        struct rpma_conn_private_data pdata = {NULL, 0};
        assert_done(rpma_conn_req_get_private_data(next_request(listener.ep, NULL), &pdata));
        assert_non_null(pdata.ptr);
        assert_int_equal(*(unsigned char *)pdata.ptr, i);
    }
}

CASE(many_requests_wait)
{
    struct listener listener = listen_somewhere(new_peer());
    struct rpma_conn *active[16];
    for (int i = 0; i < 16; ++i)
        active[i] = call_listener(&listener);
    for (int i = 0; i < 16; ++i)
        connect_request(next_request(listener.ep, NULL), NULL);
    for (int i = 0; i < 16; ++i)
        expect_event(active[i], RPMA_CONN_ESTABLISHED);
}

CASE(connections_survive_the_shutdown)
{
    struct pair pair = connect_pair();
    assert_done(rpma_ep_shutdown(&pair.listener.ep));
    fill(pair.client.memory.ptr, 64, 1);
    assert_done(rpma_write(pair.client.conn, pair.client.remote, 0, pair.client.memory.mr, 0, 64, ALWAYS, &pair));
    expect_success(pair.client.cq, IBV_WC_RDMA_WRITE, &pair);
    assert_filled(pair.server.memory.ptr, 64, 1);
    disconnect(&pair);
}

/* Returns a pending request whose endpoint was shut down. */
static struct rpma_conn_req *orphaned_request(struct rpma_conn **active)
{
    struct listener listener = listen_somewhere(new_peer());
    *active = call_listener(&listener);
    struct rpma_conn_req *req = next_request(listener.ep, NULL);
    assert_done(rpma_ep_shutdown(&listener.ep));
    return req;
}

CASE(a_pending_request_can_be_accepted_after_the_shutdown)
{
    struct rpma_conn *active = NULL;
    struct rpma_conn *passive = connect_request(orphaned_request(&active), NULL);
    expect_event(active, RPMA_CONN_ESTABLISHED);
    expect_event(passive, RPMA_CONN_ESTABLISHED);
}

CASE(a_pending_request_can_be_rejected_after_the_shutdown)
{
    struct rpma_conn *active = NULL;
    struct rpma_conn_req *req = orphaned_request(&active);
    assert_done(rpma_conn_req_delete(&req));
    expect_event(active, RPMA_CONN_REJECTED);
}

CASE(a_port_has_no_listener_after_the_shutdown)
{
    struct listener listener = listen_somewhere(new_peer());
    assert_done(rpma_ep_shutdown(&listener.ep));
    expect_event(call_listener(&listener), RPMA_CONN_REJECTED);
}
