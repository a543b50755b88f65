/* SPDX-License-Identifier: BSD-3-Clause */
#include "fixture.h"

#include <arpa/inet.h>
#include <fcntl.h>

static int connected_large(void **state)
{
    return set_up_pair(state, &(struct options){.size = 5u << 20});
}

/* Each entry of the receive queue is used in each round, so that each receive reuses an entry with older contents. */
PAIR_TEST(reposted_receives_use_their_new_buffers, connected)
{
    const struct {
        size_t offset; /* 8 bytes separate two elements */
        uint32_t length;
        int pieces;
    } rounds[] = {{0, 8, 1}, {0, 8, 1}, {64, 8, 1}, {64, 16, 1}, {64, 16, 2}, {64, 16, 1}, {0, 0, 0}, {64, 16, 1}};
    for (unsigned i = 0; i < 16 * sizeof(rounds) / sizeof(*rounds); ++i) {
        const size_t offset = rounds[i / 16].offset;
        const uint32_t length = rounds[i / 16].length;
        const int pieces = rounds[i / 16].pieces;
        const size_t sent = length * (unsigned)pieces;
        struct ibv_sge sges[2] = {sge_of(&p->server, offset, length), sge_of(&p->server, offset + length + 8, length)};
        fill(p->client.memory, 128, i + 1);
        memset(p->server.memory, 0, 128);
        assert_int_equal(post_receive_list(p->server.qp, i, sges, pieces), 0);
        assert_int_equal(post(&p->client, IBV_WR_SEND, 500, 0, sent, NULL, 0, 0), 0);
        assert_int_equal(expect_completion(p->server.cq, i, IBV_WC_SUCCESS).byte_len, sent);
        uint8_t expected[128] = {0};
        if (pieces > 0)
            memcpy(expected + offset, p->client.memory, length);
        if (pieces > 1)
            memcpy(expected + offset + length + 8, p->client.memory + length, length);
        assert_memory_equal(p->server.memory, expected, sizeof(expected));
        expect_completion(p->client.cq, 500, IBV_WC_SUCCESS);
    }
}

/* Sends more messages than the shared memory can contain, and reuses the send buffers at once. */
PAIR_TEST(messages_wait_for_their_reader, connected_large)
{
    enum {
        count = 12,
        length = 9000,
        rounds = 5
    };
    uint8_t expected[length];
    for (unsigned round = 0; round < rounds; ++round) {
        for (unsigned i = 0; i < count; ++i)
            assert_int_equal(post_receive(&p->server, i, i * length, length), 0);
        for (unsigned i = 0; i < count; ++i) {
            fill(p->client.memory, length, round * count + i);
            post_and_expect(&p->client, IBV_WR_SEND, 1, 0, length, NULL, 0, IBV_WC_SUCCESS);
        }
        for (unsigned i = 0; i < count; ++i) {
            expect_completion(p->server.cq, i, IBV_WC_SUCCESS);
            fill(expected, length, round * count + i);
            assert_memory_equal(p->server.memory + i * length, expected, length);
        }
    }
}

static void immediate_data_arrives(struct pair *p, uint32_t length)
{
    const size_t offset = 1u << 16;
    assert_int_equal(post_receive(&p->server, 1, 0, length), 0);
    assert_int_equal(post_receive(&p->server, 2, 0, 0), 0);
    fill(p->client.memory, length, 9);
    assert_int_equal(post(&p->client, IBV_WR_SEND_WITH_IMM, 3, 0, length, NULL, 0, 0), 0);
    assert_int_equal(post(&p->client, IBV_WR_RDMA_WRITE_WITH_IMM, 4, 0, length, &p->server, offset, 0), 0);
    struct ibv_wc wc = expect_completion(p->server.cq, 1, IBV_WC_SUCCESS);
    assert_int_equal(wc.opcode, IBV_WC_RECV);
    assert_int_equal(wc.wc_flags, IBV_WC_WITH_IMM);
    assert_int_equal(ntohl(wc.imm_data), 0x87654321);
    wc = expect_completion(p->server.cq, 2, IBV_WC_SUCCESS);
    assert_int_equal(wc.opcode, IBV_WC_RECV_RDMA_WITH_IMM);
    assert_int_equal(wc.byte_len, length);
    assert_int_equal(ntohl(wc.imm_data), 0x87654321);
    assert_memory_equal(p->server.memory + offset, p->client.memory, length);
    expect_completion(p->client.cq, 3, IBV_WC_SUCCESS);
    expect_completion(p->client.cq, 4, IBV_WC_SUCCESS);
}

DEFINE_TEST(immediate_data_arrives_in_network_order, connected_large, tear_down_pair)
{
    immediate_data_arrives(*state, 64);
    immediate_data_arrives(*state, 10000); /* several packets */
}

PAIR_TEST(scatter_lists_join_and_split, connected)
{
    fill(p->client.memory, 4096, 2);
    struct ibv_sge to[3], from[2];
    for (size_t i = 0; i < 3; ++i)
        to[i] = sge_of(&p->server, i * 1000 + 1, 101);
    for (size_t i = 0; i < 2; ++i)
        from[i] = sge_of(&p->client, i * 2000, 150);
    const struct ibv_send_wr send = {.wr_id = 2, .sg_list = from, .num_sge = 2, .opcode = IBV_WR_SEND};
    assert_int_equal(post_receive_list(p->server.qp, 1, to, 3), 0);
    assert_int_equal(post_wr(&p->client, send), 0);
    assert_int_equal(next_completion(p->server.cq).byte_len, 300);
    for (size_t i = 0; i < 300; ++i)
        assert_int_equal(p->server.memory[i / 101 * 1000 + 1 + i % 101], p->client.memory[i / 150 * 2000 + i % 150]);
}

/* Data must arrive at its destination and nowhere else, for all alignments and all splits into elements. Short, medium
 * and long messages take different paths through memory, and the longest fill several segments. */
PAIR_TEST(transfers_of_every_length_and_place_arrive_whole, connected_large)
{
    const size_t lengths[] = {1, 255, 256, 257, 4095, 4096, 4097, 16384 - 32, 16383, 16384, 16385, 24 * 1024, 100001,
            1048575, 1048585, 2500000, (5u << 20) - 400};
    for (unsigned i = 0; i < sizeof(lengths) / sizeof(*lengths); ++i) {
        const size_t length = lengths[i];
        const size_t from = 3 * i;
        const size_t to = 64 + 5 * i;
        fill(p->client.memory, from + length, i + 1);
        memset(p->server.memory, 0, to + length + 64);
        post_and_expect(&p->client, IBV_WR_RDMA_WRITE, 1, from, length, &p->server, to, IBV_WC_SUCCESS);
        assert_memory_equal(p->server.memory + to, p->client.memory + from, length);
        assert_int_equal(p->server.memory[to - 1] | p->server.memory[to + length], 0);

        memset(p->client.memory, 0, to + length + 64);
        post_and_expect(&p->client, IBV_WR_RDMA_READ, 2, to + i, length, &p->server, to, IBV_WC_SUCCESS);
        assert_memory_equal(p->client.memory + to + i, p->server.memory + to, length);
        assert_int_equal(p->client.memory[to + i - 1] | p->client.memory[to + i + length], 0);

        memset(p->server.memory, 0, to + length + 64);
        assert_int_equal(post_receive(&p->server, 3, to, length + 1), 0);
        assert_int_equal(post(&p->client, IBV_WR_SEND, 4, to + i, length, NULL, 0, 0), 0);
        assert_int_equal(next_completion(p->server.cq).byte_len, length);
        expect_completion(p->client.cq, 4, IBV_WC_SUCCESS);
        assert_memory_equal(p->server.memory + to, p->client.memory + to + i, length);
        assert_int_equal(p->server.memory[to - 1] | p->server.memory[to + length], 0);
    }
}

/* Arriving data is distributed to the elements of a request. */
PAIR_TEST(long_transfers_are_divided_among_elements, connected_large)
{
    enum {
        count = 4,
        part = 50001,
        length = count * part
    };
    struct ibv_sge back_to_front[count];
    uint8_t *expected = test_malloc(length);
    fill(expected, length, 9);
    for (unsigned i = 0; i < count; ++i)
        back_to_front[i] = sge_of(&p->client, (count - 1 - i) * part, part);
    memcpy(p->server.memory, expected, length);
    const struct ibv_send_wr read = {.wr_id = 1,
            .sg_list = back_to_front,
            .num_sge = count,
            .opcode = IBV_WR_RDMA_READ,
            .send_flags = IBV_SEND_SIGNALED,
            .wr.rdma = {.remote_addr = (uintptr_t)p->server.memory, .rkey = p->server.mr->rkey}};
    post_wr_and_expect(&p->client, read, IBV_WC_SUCCESS);
    for (unsigned i = 0; i < count; ++i)
        assert_memory_equal(p->client.memory + (count - 1 - i) * part, expected + i * part, part);

    memset(p->client.memory, 0, length);
    assert_int_equal(post_receive_list(p->client.qp, 2, back_to_front, count), 0);
    assert_int_equal(post(&p->server, IBV_WR_SEND, 3, 0, length, NULL, 0, 0), 0);
    expect_completion(p->client.cq, 2, IBV_WC_SUCCESS);
    for (unsigned i = 0; i < count; ++i)
        assert_memory_equal(p->client.memory + (count - 1 - i) * part, expected + i * part, part);
    test_free(expected);
}

PAIR_TEST(an_armed_queue_reports_once_per_arming, connected)
{
    struct ibv_cq *cq = NULL;
    void *cookie = NULL;
    assert_int_equal(fcntl(p->client.completions->fd, F_SETFL, O_NONBLOCK), 0);
    expect_error(ibv_get_cq_event(p->client.completions, &cq, &cookie), EAGAIN);
    assert_int_equal(ibv_req_notify_cq(p->client.cq, 0), 0);
    for (uint64_t i = 0; i < 3; ++i)
        assert_int_equal(post(&p->client, IBV_WR_RDMA_WRITE, i, 0, 8, &p->server, 0, 0), 0);
    expect_readable(p->client.completions->fd); /* the progress thread delivers although no thread polls */
    assert_int_equal(ibv_get_cq_event(p->client.completions, &cq, &cookie), 0);
    assert_ptr_equal(cq, p->client.cq);
    assert_ptr_equal(cookie, &p->client);
    for (uint64_t i = 0; i < 3; ++i)
        expect_completion(p->client.cq, i, IBV_WC_SUCCESS);
    expect_error(ibv_get_cq_event(p->client.completions, &cq, &cookie), EAGAIN);
    ibv_ack_cq_events(p->client.cq, 1);
}

PAIR_TEST(solicited_arming_ignores_plain_messages, connected)
{
    for (uint64_t i = 0; i < 2; ++i)
        assert_int_equal(post_receive(&p->server, i, 0, 8), 0);
    assert_int_equal(ibv_req_notify_cq(p->server.cq, 1), 0);
    assert_int_equal(post(&p->client, IBV_WR_SEND, 1, 0, 8, NULL, 0, 0), 0);
    expect_completion(p->server.cq, 0, IBV_WC_SUCCESS);
    expect_unreadable(p->server.completions->fd, 50);
    assert_int_equal(post(&p->client, IBV_WR_SEND, 2, 0, 8, NULL, 0, IBV_SEND_SOLICITED), 0);
    assert_ptr_equal(take_cq_event(p->server.completions), p->server.cq);
}
