// SPDX-License-Identifier: BSD-3-Clause
/* Bytes exchanged while connecting, in both directions. */
#include "support/rdma.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Sizes of private data that InfiniBand and RoCE carry for the TCP port space. */
#define REQUEST_LIMIT 56
#define ANSWER_LIMIT 196

/* On iWARP, private data has an explicit length, and the limits differ. */
static bool is_infiniband(struct side *self)
{
    struct ibv_context *context;
    struct ibv_device_attr_ex attributes;
    query_device(self, &context, &attributes);
    return context->device->transport_type == IBV_TRANSPORT_IB;
}

/* Checks that the sent bytes arrive unchanged, and that bytes after them, if any, are zero. */
static void check_private_data(
        const struct rpma_conn_private_data *pdata, size_t length, unsigned seed, bool padded, size_t limit)
{
    CHECK_EQ(pdata->len, padded ? limit : length);
    if (pdata->len) {
        check_pattern(pdata->ptr, length, seed);
        check_pattern((const char *)pdata->ptr + length, pdata->len - length, 0);
    }
}

/* argument: lengths of the private data of request and response, 0 for none. Reports the result for each line. */
static void serve_private_data(struct side *self, const char *argument)
{
    size_t request_length, answer_length;
    CHECK_EQ(sscanf(argument, "%zu %zu", &request_length, &answer_length), 2);
    struct rpma_peer *peer = make_peer(self);
    char port[8];
    struct rpma_ep *ep = make_ep(self, peer, port);
    struct rpma_conn_req *req = next_request(self, ep, NULL);
    struct rpma_conn_private_data before, after;
    CHECK_OK(rpma_conn_req_get_private_data(req, &before));
    check_private_data(&before, request_length, 1, is_infiniband(self), REQUEST_LIMIT);

    unsigned char answer[255];
    fill_pattern(answer, answer_length, 2);
    struct rpma_conn_private_data pdata = {.ptr = answer, .len = (uint8_t)answer_length};
    struct rpma_conn *conn = NULL;
    scope_forget(&self->scope, req);
    int result = rpma_conn_req_connect(&req, answer_length ? &pdata : NULL, &conn);
    if (result) {
        CHECK(req == NULL && conn == NULL);
        send_line(self->link, "refused %d", result);
        return;
    }
    scope_add(&self->scope, release_conn, conn);
    expect_event(conn, RPMA_CONN_ESTABLISHED);
    CHECK_OK(rpma_conn_get_private_data(conn, &after));
    CHECK(after.ptr == before.ptr && after.len == before.len);
    send_line(self->link, "established");
    expect_line(self->link, "leave");
}

static void exchange(struct side *self, size_t request_length, size_t answer_length)
{
    struct server *server = start_server(self, "private data", "%zu %zu", request_length, answer_length);
    struct rpma_peer *peer = make_peer(self);
    unsigned char request[255];
    fill_pattern(request, request_length, 1);
    struct rpma_conn_private_data pdata = {.ptr = request, .len = (uint8_t)request_length};
    struct rpma_conn_private_data none = {.ptr = request, .len = 1};
    struct rpma_conn_req *req = new_request(self, peer, server->port, NULL);
    CHECK_OK(rpma_conn_req_get_private_data(req, &none));
    CHECK(none.ptr == NULL && none.len == 0);
    struct rpma_conn *conn = connect_request(self, req, request_length ? &pdata : NULL);
    memset(request, 0xee, sizeof(request));
    expect_event(conn, RPMA_CONN_ESTABLISHED);
    struct rpma_conn_private_data answer;
    CHECK_OK(rpma_conn_get_private_data(conn, &answer));
    check_private_data(&answer, answer_length, 2, is_infiniband(self), ANSWER_LIMIT);
    expect_line(server->link, "established");
    send_line(server->link, "leave");
}

INTEGRATION_TEST(private_data_may_be_absent_on_both_sides)
{
    exchange(self, 0, 0);
}

INTEGRATION_TEST(private_data_arrives_on_both_sides_and_is_padded_with_zeros)
{
    exchange(self, 1, 1);
    exchange(self, 23, 100);
}

INTEGRATION_TEST(private_data_may_go_one_way_only)
{
    exchange(self, 17, 0);
    exchange(self, 0, 17);
}

INTEGRATION_TEST(private_data_may_be_as_long_as_the_transport_carries)
{
    exchange(self, REQUEST_LIMIT, ANSWER_LIMIT);
}

INTEGRATION_TEST(a_request_with_too_much_private_data_fails)
{
    needs_no_older_library();
    if (!is_infiniband(self))
        skip_because("the limit of 56 bytes is that of InfiniBand and RoCE");
    struct server *server = start_server(self, "private data", "4 4");
    struct rpma_peer *peer = make_peer(self);
    unsigned char request[255] = {0};
    for (unsigned length = REQUEST_LIMIT + 1; length <= 255; length += 255 - REQUEST_LIMIT - 1) {
        struct rpma_conn_private_data pdata = {.ptr = request, .len = (uint8_t)length};
        struct rpma_conn_req *req = new_request(self, peer, server->port, NULL);
        scope_forget(&self->scope, req);
        struct rpma_conn *conn = NULL;
        CHECK_RPMA(rpma_conn_req_connect(&req, &pdata, &conn), RPMA_E_PROVIDER);
        CHECK_EQ(errno, EINVAL);
        CHECK(req == NULL && conn == NULL);
    }
    /* The data did not reach the server: the next request is the first that it receives. */
    fill_pattern(request, 4, 1);
    struct rpma_conn_private_data pdata = {.ptr = request, .len = 4};
    struct rpma_conn *conn = connect_request(self, new_request(self, peer, server->port, NULL), &pdata);
    expect_event(conn, RPMA_CONN_ESTABLISHED);
    expect_line(server->link, "established");
    send_line(server->link, "leave");
}

INTEGRATION_TEST(an_answer_with_too_much_private_data_rejects_the_client)
{
    needs_no_older_library();
    if (!is_infiniband(self))
        skip_because("the limit of 196 bytes is that of InfiniBand and RoCE");
    struct server *server = start_server(self, "private data", "0 %d", ANSWER_LIMIT + 1);
    struct rpma_peer *peer = make_peer(self);
    struct rpma_conn *conn = connect_request(self, new_request(self, peer, server->port, NULL), NULL);
    expect_event(conn, RPMA_CONN_REJECTED);
    char expected[32];
    snprintf(expected, sizeof(expected), "refused %d", RPMA_E_PROVIDER);
    expect_line(server->link, expected);
    struct rpma_conn_private_data pdata;
    CHECK_OK(rpma_conn_get_private_data(conn, &pdata));
    CHECK(pdata.ptr == NULL && pdata.len == 0);
}

static const struct role roles[] = {{"private data", serve_private_data}, {NULL, NULL}};

INTEGRATION_MAIN(roles)
