// SPDX-License-Identifier: BSD-3-Clause
/* All data operations. The data is checked at the peer. */
#include "support/memory_server.h"

#include <arpa/inet.h>
#include <string.h>

#define MEMORY_SIZE 65536
#define ALWAYS RPMA_F_COMPLETION_ALWAYS

static const size_t lengths[] = {1, 7, 8, 9, 255, 4096, 4097, 40000};

INTEGRATION_TEST(write_places_the_bytes_at_the_offset_and_no_others)
{
    struct session session = open_session(self, MEMORY_SIZE, NULL);
    for (unsigned i = 0; i < sizeof(lengths) / sizeof(*lengths); ++i) {
        size_t length = lengths[i], from = i * 3, to = 1001 + i * 5;
        fill_pattern(session.local.ptr + from, length, i + 1);
        CHECK_OK(rpma_write(session.conn, session.remote, to, session.local.mr, from, length, ALWAYS, &lengths[i]));
        expect_completion(session.cq, IBV_WC_RDMA_WRITE, &lengths[i]);
        ask(session.server->link, "check %zu %zu %u", to, length, i + 1);
        ask(session.server->link, "check 0 %zu 0", to);
        ask(session.server->link, "check %zu %zu 0", to + length, MEMORY_SIZE - to - length);
        ask(session.server->link, "fill 0 %d 0", MEMORY_SIZE);
    }
}

INTEGRATION_TEST(read_fetches_the_bytes_at_the_offset_and_no_others)
{
    struct session session = open_session(self, MEMORY_SIZE, NULL);
    for (unsigned i = 0; i < sizeof(lengths) / sizeof(*lengths); ++i) {
        size_t length = lengths[i], from = 13 + i * 7, to = 101 + i * 3;
        ask(session.server->link, "fill 0 %d 200", MEMORY_SIZE);
        ask(session.server->link, "fill %zu %zu %u", from, length, i + 1);
        CHECK_OK(rpma_read(session.conn, session.local.mr, to, session.remote, from, length, ALWAYS, &lengths[i]));
        expect_completion(session.cq, IBV_WC_RDMA_READ, &lengths[i]);
        check_pattern(session.local.ptr + to, length, i + 1);
        check_pattern(session.local.ptr, to, 0);
        check_pattern(session.local.ptr + to + length, MEMORY_SIZE - to - length, 0);
        memset(session.local.ptr, 0, MEMORY_SIZE);
    }
}

static void check_arrival(struct server *server, enum ibv_wc_opcode opcode, size_t length, bool has_imm, uint32_t imm)
{
    struct ibv_wc wc = collect_completion(server);
    CHECK_EQ(wc.status, IBV_WC_SUCCESS);
    CHECK_EQ(wc.opcode, opcode);
    CHECK_EQ(wc.byte_len, length);
    CHECK_EQ((wc.wc_flags & IBV_WC_WITH_IMM) != 0, has_imm);
    CHECK_EQ(wc.imm_data, imm);
}

INTEGRATION_TEST(write_with_imm_places_the_bytes_and_delivers_the_value)
{
    struct session session = open_session(self, MEMORY_SIZE, NULL);
    ask(session.server->link, "recv 0 0 1");
    fill_pattern(session.local.ptr + 11, 5000, 3);
    CHECK_OK(rpma_write_with_imm(
            session.conn, session.remote, 77, session.local.mr, 11, 5000, ALWAYS, 0x87654321, &session));
    expect_completion(session.cq, IBV_WC_RDMA_WRITE, &session);
    check_arrival(session.server, IBV_WC_RECV_RDMA_WITH_IMM, 5000, true, 0x87654321);
    ask(session.server->link, "check 77 5000 3");
}

INTEGRATION_TEST(send_delivers_the_message_into_the_posted_buffer)
{
    struct session session = open_session(self, MEMORY_SIZE, NULL);
    for (unsigned i = 0; i < sizeof(lengths) / sizeof(*lengths); ++i) {
        ask(session.server->link, "recv 100 50000 1");
        fill_pattern(session.local.ptr + i, lengths[i], i + 1);
        CHECK_OK(rpma_send(session.conn, session.local.mr, i, lengths[i], ALWAYS, &lengths[i]));
        expect_completion(session.cq, IBV_WC_SEND, &lengths[i]);
        check_arrival(session.server, IBV_WC_RECV, lengths[i], false, 0);
        ask(session.server->link, "message 100 %zu %u", lengths[i], i + 1);
    }
}

INTEGRATION_TEST(recv_receives_the_message_of_the_server)
{
    struct session session = open_session(self, MEMORY_SIZE, NULL);
    CHECK_OK(rpma_recv(session.conn, session.local.mr, 10, 4000, &session));
    CHECK_OK(rpma_recv(session.conn, session.local.mr, 5000, 4000, &self));
    ask(session.server->link, "send 3 3999 4");
    struct ibv_wc first = expect_completion(session.cq, IBV_WC_RECV, &session);
    CHECK_EQ(first.byte_len, 3999);
    CHECK_EQ(first.wc_flags & IBV_WC_WITH_IMM, 0);
    check_pattern(session.local.ptr + 10, 3999, 4);
    check_pattern(session.local.ptr + 10 + 3999, 1, 0);
    ask(session.server->link, "send 0 1 5 17");
    struct ibv_wc second = expect_completion(session.cq, IBV_WC_RECV, &self);
    CHECK_EQ(second.byte_len, 1);
    CHECK_EQ(ntohl(second.imm_data), 17);
    check_pattern(session.local.ptr + 5000, 1, 5);
}

static void transfer_there_and_back(struct side *self, size_t size)
{
    struct session session = open_session(self, size, NULL);
    fill_pattern(session.local.ptr, size, 6);
    CHECK_OK(rpma_write(session.conn, session.remote, 0, session.local.mr, 0, size, ALWAYS, &session));
    expect_completion(session.cq, IBV_WC_RDMA_WRITE, &session);
    ask(session.server->link, "check 0 %zu 6", size);
    ask(session.server->link, "fill 0 %zu 7", size);
    CHECK_OK(rpma_read(session.conn, session.local.mr, 0, session.remote, 0, size, ALWAYS, &session));
    expect_completion(session.cq, IBV_WC_RDMA_READ, &session);
    check_pattern(session.local.ptr, size, 7);
}

INTEGRATION_TEST(mebibytes_go_there_and_back)
{
    transfer_there_and_back(self, 1 << 20);
    transfer_there_and_back(self, 64 << 20);
}

INTEGRATION_MAIN(NULL)
