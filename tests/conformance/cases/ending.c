// SPDX-License-Identifier: BSD-3-Clause
/* Ends of connections. */
#include "../driver/suite.h"
#include "../support/process.h"
#include "../support/rdma.h"

SUITE(ending);

CASE(the_server_disconnects)
{
    struct pair pair = connect_pair();
    assert_done(rpma_conn_disconnect(pair.server.conn));
    expect_event(pair.client.conn, RPMA_CONN_CLOSED);
    assert_done(rpma_conn_disconnect(pair.client.conn));
    expect_event(pair.server.conn, RPMA_CONN_CLOSED);
}

CASE(both_sides_disconnect_at_once)
{
    struct pair pair = connect_pair();
    assert_done(rpma_conn_disconnect(pair.client.conn));
    assert_done(rpma_conn_disconnect(pair.server.conn));
    expect_event(pair.client.conn, RPMA_CONN_CLOSED);
    expect_event(pair.server.conn, RPMA_CONN_CLOSED);
}

CASE(deleting_an_established_connection_ends_it)
{
    struct pair pair = connect_pair();
    assert_done(rpma_conn_delete(&pair.client.conn));
    assert_null(pair.client.conn);
    assert_done(rpma_conn_delete(&pair.client.conn));
    expect_end(pair.server.conn);
}

CASE(a_connection_can_be_deleted_before_it_is_established)
{
    struct listener listener = listen_somewhere(new_peer());
    struct rpma_conn *conn = call_listener(&listener);
    assert_done(rpma_conn_delete(&conn));
    assert_null(conn);
}

CASE(an_accepted_connection_can_be_deleted_at_once)
{
    struct listener listener = listen_somewhere(new_peer());
    struct rpma_conn *active = call_listener(&listener);
    struct rpma_conn *passive = connect_request(next_request(listener.ep, NULL), NULL);
    assert_done(rpma_conn_delete(&passive));
    assert_done(rpma_conn_delete(&active));
}

CASE(a_rejected_connection_can_be_deleted)
{
    char port[8];
    pick_port(port);
    struct rpma_conn *conn = connect_request(new_request(new_peer(), port, NULL), NULL);
    expect_event(conn, RPMA_CONN_REJECTED);
    assert_done(rpma_conn_delete(&conn));
}

CASE(outstanding_receives_are_flushed_in_order)
{
    struct pair pair = connect_pair();
    for (size_t i = 0; i < 5; ++i)
        assert_done(rpma_recv(pair.client.conn, pair.client.memory.mr, i * 64, 64, pair.client.memory.ptr + i));
    assert_done(rpma_conn_disconnect(pair.client.conn));
    for (size_t i = 0; i < 5; ++i)
        expect_failure(pair.client.cq, IBV_WC_WR_FLUSH_ERR, pair.client.memory.ptr + i);
}

static void operation_after_the_end(int flags)
{
    struct pair pair = connect_pair();
    disconnect(&pair);
    int result = rpma_write(pair.client.conn, pair.client.remote, 0, pair.client.memory.mr, 0, 8, flags, &pair);
    if (result == 0)
        expect_failure(pair.client.cq, IBV_WC_WR_FLUSH_ERR, &pair);
    else
        assert_rpma(result, RPMA_E_PROVIDER);
}

CALL_CASE(an_operation_after_the_end_fails, operation_after_the_end(ALWAYS));
CALL_CASE(an_unsignalled_operation_after_the_end_fails, operation_after_the_end(ON_ERROR));

/* Operations that have completed before the end succeed; the others are flushed. */
CASE(operations_of_before_complete_in_order_after_the_end)
{
    struct pair pair = connect_pair();
    char *contexts = pair.client.memory.ptr;
    bool flushed = false;
    for (int i = 0; i < 8; ++i)
        assert_done(rpma_write(
                pair.client.conn, pair.client.remote, 0, pair.client.memory.mr, 0, MEMORY_SIZE, ALWAYS, contexts + i));
    disconnect(&pair);
    for (int i = 0; i < 8; ++i) {
        struct ibv_wc wc = next_completion(pair.client.cq);
        assert_int_equal(wc.wr_id, (uintptr_t)(contexts + i));
        assert_true(wc.status == IBV_WC_WR_FLUSH_ERR || (wc.status == IBV_WC_SUCCESS && !flushed));
        flushed = wc.status != IBV_WC_SUCCESS;
    }
}

CASE(nothing_but_closed_follows_closed)
{
    struct pair pair = connect_pair();
    disconnect(&pair);
    make_nonblocking(event_fd(pair.client.conn));
    for (int i = 0; i < 10; ++i) {
        enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
        /* The channel may be empty already. */
        if (rpma_conn_next_event(pair.client.conn, &event) == 0)
            assert_int_equal(event, RPMA_CONN_CLOSED);
        usleep(20000);
    }
}

CASE(other_connections_continue)
{
    struct pair first = connect_pair();
    struct pair second = connect_again(&first);
    disconnect(&first);
    assert_done(rpma_conn_delete(&first.client.conn));
    assert_done(rpma_write(second.client.conn, second.client.remote, 0, second.client.memory.mr, 0, 8, ALWAYS, &first));
    expect_success(second.client.cq, IBV_WC_RDMA_WRITE, &first);
}

/* Sends its port, accepts one connection and sends a notification. */
static void serve_one(int fd)
{
    struct listener listener = listen_somewhere(new_peer());
    assert_int_equal(write(fd, listener.port, sizeof(listener.port)), sizeof(listener.port));
    struct rpma_conn *conn = connect_request(next_request(listener.ep, NULL), NULL);
    expect_event(conn, RPMA_CONN_ESTABLISHED);
    assert_int_equal(write(fd, "e", 1), 1);
}

struct remote_server {
    struct process process;
    struct rpma_peer *peer;
    struct rpma_conn *conn;
};

static struct remote_server connect_to_process(void)
{
    struct remote_server server = {.process = start_process(serve_one)};
    char port[8];
    char established;
    assert_int_equal(read(server.process.fd, port, sizeof(port)), sizeof(port));
    server.peer = new_peer();
    server.conn = connect_request(new_request(server.peer, port, NULL), NULL);
    expect_event(server.conn, RPMA_CONN_ESTABLISHED);
    assert_int_equal(read(server.process.fd, &established, 1), 1);
    return server;
}

CASE(after_the_death_of_the_other_process_operations_fail)
{
    struct remote_server server = connect_to_process();
    kill_process(&server.process);
    assert_int_equal(rpma_write(server.conn, NULL, 0, NULL, 0, 0, ALWAYS, &server), 0);
    assert_int_not_equal(next_completion(main_cq(server.conn)).status, IBV_WC_SUCCESS);
}

CASE(after_the_death_of_the_other_process_everything_can_be_released)
{
    struct remote_server server = connect_to_process();
    kill_process(&server.process);
    expect_end(server.conn);
    assert_done(rpma_conn_disconnect(server.conn));
    assert_done(rpma_conn_delete(&server.conn));
    assert_done(rpma_peer_delete(&server.peer));
}

/* Sends its port, then stays idle. */
static void serve_no_client(int fd)
{
    struct listener listener = listen_somewhere(new_peer());
    assert_int_equal(write(fd, listener.port, sizeof(listener.port)), sizeof(listener.port));
}

CASE(a_server_that_does_not_answer_is_unreachable)
{
    if (!getenv("RPMA_TEST_QUICK_UNREACHABLE"))
        skip_because("the device may take minutes to give up on a server that does not answer");
    struct process server = start_process(serve_no_client);
    char port[8];
    assert_int_equal(read(server.fd, port, sizeof(port)), sizeof(port));
    stop_process(&server);
    expect_event(connect_request(new_request(new_peer(), port, NULL), NULL), RPMA_CONN_UNREACHABLE);
}
