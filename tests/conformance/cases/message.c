// SPDX-License-Identifier: BSD-3-Clause
#include "../driver/suite.h"
#include "../support/rdma.h"

SUITE(message);

#define IMMEDIATE 0x87654321

static void assert_immediate(const struct ibv_wc *wc)
{
    assert_true(wc->wc_flags & IBV_WC_WITH_IMM);
    assert_memory_equal(&wc->imm_data, "\x87\x65\x43\x21", 4);
}

static void sends(size_t length, bool immediate)
{
    struct pair pair = connect_pair();
    fill(pair.client.memory.ptr, length, 1);
    assert_done(rpma_recv(pair.server.conn, pair.server.memory.mr, 0, MEMORY_SIZE, &pair.server));
    if (immediate)
        assert_done(rpma_send_with_imm(
                pair.client.conn, pair.client.memory.mr, 0, length, ALWAYS, IMMEDIATE, &pair.client));
    else
        assert_done(rpma_send(pair.client.conn, pair.client.memory.mr, 0, length, ALWAYS, &pair.client));
    expect_success(pair.client.cq, IBV_WC_SEND, &pair.client);
    struct ibv_wc wc = expect_success(pair.server.cq, IBV_WC_RECV, &pair.server);
    assert_int_equal(wc.byte_len, length);
    if (immediate)
        assert_immediate(&wc);
    else
        assert_false(wc.wc_flags & IBV_WC_WITH_IMM);
    assert_filled(pair.server.memory.ptr, length, 1);
    assert_filled(pair.server.memory.ptr + length, MEMORY_SIZE - length, 0);
}

#define SIZES(ROW) ROW(1) ROW(8) ROW(1000) ROW(4096) ROW(65536)

#define SIZE_CASES(length)                                                                                             \
    CALL_CASE(a_message_of_##length##_bytes_arrives, sends(length, false));                                            \
    CALL_CASE(a_message_of_##length##_bytes_and_an_immediate_value_arrives, sends(length, true));
SIZES(SIZE_CASES)

CASE(an_empty_message_needs_no_regions)
{
    struct pair pair = connect_pair();
    assert_done(rpma_recv(pair.server.conn, NULL, 0, 0, &pair.server));
    assert_done(rpma_send(pair.client.conn, NULL, 0, 0, ALWAYS, &pair.client));
    expect_success(pair.client.cq, IBV_WC_SEND, &pair.client);
    assert_int_equal(expect_success(pair.server.cq, IBV_WC_RECV, &pair.server).byte_len, 0);
}

CASE(an_immediate_value_alone_needs_no_regions)
{
    struct pair pair = connect_pair();
    assert_done(rpma_recv(pair.server.conn, NULL, 0, 0, &pair.server));
    assert_done(rpma_send_with_imm(pair.client.conn, NULL, 0, 0, ALWAYS, IMMEDIATE, &pair.client));
    expect_success(pair.client.cq, IBV_WC_SEND, &pair.client);
    struct ibv_wc wc = expect_success(pair.server.cq, IBV_WC_RECV, &pair.server);
    assert_immediate(&wc);
}

CASE(offsets_hold_on_both_sides)
{
    struct pair pair = connect_pair();
    fill(pair.client.memory.ptr + 100, 50, 6);
    assert_done(rpma_recv(pair.server.conn, pair.server.memory.mr, 200, 50, NULL));
    assert_done(rpma_send(pair.client.conn, pair.client.memory.mr, 100, 50, ALWAYS, NULL));
    expect_success(pair.server.cq, IBV_WC_RECV, NULL);
    assert_filled(pair.server.memory.ptr, 200, 0);
    assert_filled(pair.server.memory.ptr + 200, 50, 6);
    assert_filled(pair.server.memory.ptr + 250, 50, 0);
}

CASE(messages_fill_receives_in_order)
{
    struct pair pair = connect_pair();
    char *contexts = pair.server.memory.ptr + 32768;
    for (size_t i = 0; i < 8; ++i)
        assert_done(rpma_recv(pair.server.conn, pair.server.memory.mr, i * 64, 64, contexts + i));
    for (size_t i = 0; i < 8; ++i) {
        fill(pair.client.memory.ptr + i * 64, 64, (unsigned)i + 1);
        assert_done(rpma_send(pair.client.conn, pair.client.memory.mr, i * 64, 64, i == 7 ? ALWAYS : ON_ERROR, NULL));
    }
    for (size_t i = 0; i < 8; ++i) {
        expect_success(pair.server.cq, IBV_WC_RECV, contexts + i);
        assert_filled(pair.server.memory.ptr + i * 64, 64, (unsigned)i + 1);
    }
}

/* Skips on iWARP, where a message without a receive ends the connection. */
static void needs_receiver_not_ready(void)
{
    if (device()->device->transport_type == IBV_TRANSPORT_IWARP)
        skip_because("the device is iWARP, where messages do not wait for receives");
}

CASE(a_message_waits_for_its_receive)
{
    needs_receiver_not_ready();
    struct pair pair = connect_pair();
    struct ibv_wc wc;
    fill(pair.client.memory.ptr, 100, 4);
    assert_done(rpma_send(pair.client.conn, pair.client.memory.mr, 0, 100, ALWAYS, &pair));
    usleep(30000);
    assert_rpma(rpma_cq_get_wc(pair.client.cq, 1, &wc, NULL), RPMA_E_NO_COMPLETION);
    assert_done(rpma_recv(pair.server.conn, pair.server.memory.mr, 0, 100, NULL));
    expect_success(pair.client.cq, IBV_WC_SEND, &pair);
    expect_success(pair.server.cq, IBV_WC_RECV, NULL);
    assert_filled(pair.server.memory.ptr, 100, 4);
}

CASE(a_write_with_immediate_waits_for_its_receive)
{
    needs_receiver_not_ready();
    struct pair pair = connect_pair();
    struct ibv_wc wc;
    assert_done(rpma_write_with_imm(
            pair.client.conn, pair.client.remote, 0, pair.client.memory.mr, 0, 8, ALWAYS, IMMEDIATE, &pair));
    usleep(30000);
    assert_rpma(rpma_cq_get_wc(pair.client.cq, 1, &wc, NULL), RPMA_E_NO_COMPLETION);
    assert_done(rpma_recv(pair.server.conn, NULL, 0, 0, NULL));
    expect_success(pair.client.cq, IBV_WC_RDMA_WRITE, &pair);
}

CASE(a_message_longer_than_its_receive_breaks_both_sides)
{
    struct pair pair = connect_pair();
    fill(pair.client.memory.ptr, 65, 1);
    assert_done(rpma_recv(pair.server.conn, pair.server.memory.mr, 0, 64, &pair.server));
    assert_done(rpma_send(pair.client.conn, pair.client.memory.mr, 0, 65, ALWAYS, &pair.client));
    expect_failure(pair.client.cq, IBV_WC_REM_INV_REQ_ERR, &pair.client);
    expect_failure(pair.server.cq, IBV_WC_LOC_LEN_ERR, &pair.server);
    assert_filled(pair.server.memory.ptr + 64, 64, 0);
}

CASE(a_successful_send_completes_only_if_requested)
{
    struct pair pair = connect_pair();
    struct ibv_wc wc;
    for (int i = 0; i < 3; ++i)
        assert_done(rpma_recv(pair.server.conn, NULL, 0, 0, NULL));
    assert_done(rpma_send(pair.client.conn, NULL, 0, 0, ON_ERROR, NULL));
    assert_done(rpma_send_with_imm(pair.client.conn, NULL, 0, 0, ON_ERROR, IMMEDIATE, NULL));
    assert_done(rpma_send(pair.client.conn, NULL, 0, 0, ALWAYS, &pair));
    expect_success(pair.client.cq, IBV_WC_SEND, &pair);
    assert_rpma(rpma_cq_get_wc(pair.client.cq, 1, &wc, NULL), RPMA_E_NO_COMPLETION);
}

CASE(receives_complete_on_the_receive_queue_if_there_is_one)
{
    struct rpma_conn_cfg *cfg = new_cfg();
    assert_done(rpma_conn_cfg_set_rcq_size(cfg, 4));
    struct pair pair = connect_pair_with(new_peer(), NULL, cfg);
    struct ibv_wc wc;
    assert_done(rpma_recv(pair.server.conn, NULL, 0, 0, &pair));
    assert_done(rpma_send(pair.client.conn, NULL, 0, 0, ALWAYS, NULL));
    expect_success(receive_cq(pair.server.conn), IBV_WC_RECV, &pair);
    assert_rpma(rpma_cq_get_wc(pair.server.cq, 1, &wc, NULL), RPMA_E_NO_COMPLETION);
}

CASE(sends_complete_on_the_main_queue)
{
    struct rpma_conn_cfg *cfg = new_cfg();
    assert_done(rpma_conn_cfg_set_rcq_size(cfg, 4));
    struct pair pair = connect_pair_with(new_peer(), cfg, NULL);
    struct ibv_wc wc;
    assert_done(rpma_recv(pair.server.conn, NULL, 0, 0, NULL));
    assert_done(rpma_send(pair.client.conn, NULL, 0, 0, ALWAYS, &pair));
    expect_success(pair.client.cq, IBV_WC_SEND, &pair);
    assert_rpma(rpma_cq_get_wc(receive_cq(pair.client.conn), 1, &wc, NULL), RPMA_E_NO_COMPLETION);
}

CASE(both_sides_send_at_once)
{
    struct pair pair = connect_pair();
    for (unsigned round = 1; round <= 100; ++round) {
        assert_done(rpma_recv(pair.server.conn, pair.server.memory.mr, 0, 64, &pair.server));
        assert_done(rpma_recv(pair.client.conn, pair.client.memory.mr, 0, 64, &pair.client));
        fill(pair.client.memory.ptr + 64, 64, round);
        fill(pair.server.memory.ptr + 64, 64, round + 1);
        assert_done(rpma_send(pair.client.conn, pair.client.memory.mr, 64, 64, ALWAYS, pair.client.conn));
        assert_done(rpma_send(pair.server.conn, pair.server.memory.mr, 64, 64, ALWAYS, pair.server.conn));
        for (int i = 0; i < 2; ++i) {
            assert_int_equal(next_completion(pair.client.cq).status, IBV_WC_SUCCESS);
            assert_int_equal(next_completion(pair.server.cq).status, IBV_WC_SUCCESS);
        }
        assert_filled(pair.server.memory.ptr, 64, round);
        assert_filled(pair.client.memory.ptr, 64, round + 1);
    }
}

CASE(a_receive_carries_the_queue_pair_number)
{
    struct pair pair = connect_pair();
    uint32_t qp_num = 0;
    assert_done(rpma_conn_get_qp_num(pair.server.conn, &qp_num));
    assert_done(rpma_recv(pair.server.conn, NULL, 0, 0, NULL));
    assert_done(rpma_send(pair.client.conn, NULL, 0, 0, ALWAYS, NULL));
    assert_int_equal(expect_success(pair.server.cq, IBV_WC_RECV, NULL).qp_num, qp_num);
}
