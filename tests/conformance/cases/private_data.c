// SPDX-License-Identifier: BSD-3-Clause
/* Private data that peers exchange when they connect. */
#include "../driver/suite.h"
#include "../support/rdma.h"

SUITE(private_data);

/* Maximum sizes of private data on InfiniBand and RoCE. */
#define REQUEST_LIMIT 56
#define ANSWER_LIMIT 196

/* A device may pad private data with zeros. */
static void assert_arrived(const struct rpma_conn_private_data *pdata, size_t length, size_t limit)
{
    assert_true(pdata->len == length || pdata->len == limit);
    if (pdata->len) {
        assert_filled(pdata->ptr, length, 9);
        assert_filled((const char *)pdata->ptr + length, pdata->len - length, 0);
    }
}

static void assert_absent(struct rpma_conn_private_data pdata)
{
    assert_null(pdata.ptr);
    assert_int_equal(pdata.len, 0);
}

static struct rpma_conn_private_data of_connection(const struct rpma_conn *conn)
{
    struct rpma_conn_private_data pdata = {(void *)(uintptr_t)64, 77};
    assert_done(rpma_conn_get_private_data(conn, &pdata));
    return pdata;
}

static struct rpma_conn_private_data of_request(const struct rpma_conn_req *req)
{
    struct rpma_conn_private_data pdata = {(void *)(uintptr_t)64, 77};
    assert_done(rpma_conn_req_get_private_data(req, &pdata));
    return pdata;
}

struct exchange {
    struct listener listener;
    struct rpma_conn *active;
    struct rpma_conn_req *incoming;
    struct rpma_conn *passive;
};

/* Sends a request with `length` bytes of data, which are freed afterwards. */
static struct exchange request_with(uint8_t length)
{
    unsigned char sent[255];
    fill(sent, sizeof(sent), 9);
    struct rpma_conn_private_data pdata = {sent, length};
    struct exchange exchange = {.listener = listen_somewhere(new_peer())};
    exchange.active =
            connect_request(new_request(exchange.listener.peer, exchange.listener.port, NULL), length ? &pdata : NULL);
    memset(sent, 0xee, sizeof(sent));
    exchange.incoming = next_request(exchange.listener.ep, NULL);
    return exchange;
}

static struct exchange exchange_of(uint8_t request_length, uint8_t answer_length)
{
    unsigned char sent[255];
    struct exchange exchange = request_with(request_length);
    fill(sent, sizeof(sent), 9);
    struct rpma_conn_private_data pdata = {sent, answer_length};
    exchange.passive = connect_request(exchange.incoming, answer_length ? &pdata : NULL);
    exchange.incoming = NULL;
    memset(sent, 0xee, sizeof(sent));
    expect_event(exchange.active, RPMA_CONN_ESTABLISHED);
    expect_event(exchange.passive, RPMA_CONN_ESTABLISHED);
    return exchange;
}

#define REQUESTS(ROW) ROW(1) ROW(8) ROW(21) ROW(55) ROW(56)
#define ANSWERS(ROW) ROW(1) ROW(21) ROW(56) ROW(57) ROW(195) ROW(196)

#define REQUEST_CASE(length)                                                                                           \
    CASE(a_request_carries_##length##_bytes)                                                                           \
    {                                                                                                                  \
        struct rpma_conn_private_data pdata = of_request(request_with(length).incoming);                               \
        assert_arrived(&pdata, length, REQUEST_LIMIT);                                                                 \
    }
REQUESTS(REQUEST_CASE)

#define ANSWER_CASE(length)                                                                                            \
    CASE(an_answer_carries_##length##_bytes)                                                                           \
    {                                                                                                                  \
        struct rpma_conn_private_data pdata = of_connection(exchange_of(0, length).active);                            \
        assert_arrived(&pdata, length, ANSWER_LIMIT);                                                                  \
    }
ANSWERS(ANSWER_CASE)

CASE(both_sides_may_send_at_once)
{
    struct exchange exchange = exchange_of(30, 40);
    struct rpma_conn_private_data at_server = of_connection(exchange.passive);
    struct rpma_conn_private_data at_client = of_connection(exchange.active);
    assert_arrived(&at_server, 30, REQUEST_LIMIT);
    assert_arrived(&at_client, 40, ANSWER_LIMIT);
}

CALL_CASE(an_outgoing_request_has_none, assert_absent(of_request(new_request(new_peer(), "7204", NULL))));
CALL_CASE(the_active_side_has_none_before_it_is_established, assert_absent(of_connection(request_with(8).active)));

CASE(a_rejected_connection_has_none)
{
    struct exchange exchange = request_with(8);
    assert_done(rpma_conn_req_delete(&exchange.incoming));
    expect_event(exchange.active, RPMA_CONN_REJECTED);
    assert_absent(of_connection(exchange.active));
}

CASE(the_request_s_bytes_stay_in_place_in_the_connection)
{
    struct exchange exchange = request_with(17);
    struct rpma_conn_private_data before = of_request(exchange.incoming);
    exchange.passive = connect_request(exchange.incoming, NULL);
    struct rpma_conn_private_data after = of_connection(exchange.passive);
    assert_ptr_equal(after.ptr, before.ptr);
    assert_int_equal(after.len, before.len);
    expect_event(exchange.active, RPMA_CONN_ESTABLISHED);
    expect_event(exchange.passive, RPMA_CONN_ESTABLISHED);
    assert_arrived(&before, 17, REQUEST_LIMIT);
}

CASE(they_can_be_queried_again)
{
    struct exchange exchange = exchange_of(4, 4);
    struct rpma_conn_private_data first = of_connection(exchange.active);
    struct rpma_conn_private_data second = of_connection(exchange.active);
    assert_ptr_equal(first.ptr, second.ptr);
    assert_int_equal(first.len, second.len);
}

CASE(they_outlive_the_end_of_the_connection)
{
    struct exchange exchange = exchange_of(12, 13);
    assert_done(rpma_conn_disconnect(exchange.passive));
    expect_event(exchange.active, RPMA_CONN_CLOSED);
    assert_done(rpma_conn_disconnect(exchange.active));
    expect_event(exchange.passive, RPMA_CONN_CLOSED);
    struct rpma_conn_private_data at_server = of_connection(exchange.passive);
    struct rpma_conn_private_data at_client = of_connection(exchange.active);
    assert_arrived(&at_server, 12, REQUEST_LIMIT);
    assert_arrived(&at_client, 13, ANSWER_LIMIT);
}

static void needs_the_limits_of_infiniband(void)
{
    if (!has_infiniband_limits())
        skip_because("the device has other limits of private data than InfiniBand and RoCE");
}

static void too_much_in_a_request(uint8_t length)
{
    needs_the_limits_of_infiniband();
    unsigned char sent[255] = {0};
    struct rpma_conn_private_data pdata = {sent, length};
    struct listener listener = listen_somewhere(new_peer());
    struct rpma_conn_req *req = new_request(listener.peer, listener.port, NULL);
    struct rpma_conn *conn = NULL;
    assert_rpma(rpma_conn_req_connect(&req, &pdata, &conn), RPMA_E_PROVIDER);
    assert_null(req);
    assert_null(conn);
    assert_not_readable(ep_fd(listener.ep));
}

CASE(a_request_does_not_carry_more_than_56_bytes)
{
    too_much_in_a_request(REQUEST_LIMIT + 1);
    too_much_in_a_request(255);
}

static struct exchange too_much_in_an_answer(uint8_t length)
{
    needs_the_limits_of_infiniband();
    unsigned char sent[255] = {0};
    struct rpma_conn_private_data pdata = {sent, length};
    struct exchange exchange = request_with(4);
    assert_rpma(rpma_conn_req_connect(&exchange.incoming, &pdata, &exchange.passive), RPMA_E_PROVIDER);
    assert_null(exchange.incoming);
    assert_null(exchange.passive);
    return exchange;
}

CASE(an_answer_does_not_carry_more_than_196_bytes)
{
    too_much_in_an_answer(ANSWER_LIMIT + 1);
    too_much_in_an_answer(255);
}

CALL_CASE(an_answer_with_too_much_rejects_the_client,
        expect_event(too_much_in_an_answer(255).active, RPMA_CONN_REJECTED));
