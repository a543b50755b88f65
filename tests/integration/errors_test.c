// SPDX-License-Identifier: BSD-3-Clause
/* Operations that must fail: rejected before they are posted, or by the peer. */
#include "support/memory_server.h"

#include <stdint.h>
#include <string.h>

#define MEMORY_SIZE 8192
#define ALWAYS RPMA_F_COMPLETION_ALWAYS
#define ON_ERROR RPMA_F_COMPLETION_ON_ERROR
#define DESCRIPTOR_LENGTH_OFFSET 8
#define DESCRIPTOR_KEY_OFFSET 16
#define DESCRIPTOR_USAGE_OFFSET 20

static void expect_access_error(struct session *session, int posted)
{
    CHECK_OK(posted);
    expect_failure(session->cq, IBV_WC_REM_ACCESS_ERR, session);
    /* The queue pair is in the error state: later operations are flushed. */
    CHECK_OK(rpma_write(session->conn, NULL, 0, NULL, 0, 0, ON_ERROR, &posted));
    expect_failure(session->cq, IBV_WC_WR_FLUSH_ERR, &posted);
    ask(session->server->link, "check 0 %d 0", MEMORY_SIZE);
}

static struct rpma_mr_remote *forged_region(struct side *self, struct session *session, size_t at, int changed_bits)
{
    uint8_t descriptor[DESCRIPTOR_SIZE];
    memcpy(descriptor, received_greeting(session->conn)->descriptors[0], sizeof(descriptor));
    descriptor[at] = (uint8_t)(descriptor[at] ^ changed_bits);
    return make_remote(self, descriptor);
}

INTEGRATION_TEST(a_wrong_key_is_a_remote_access_error)
{
    for (size_t byte = 0; byte < 4; ++byte) {
        struct session session = open_session(self, MEMORY_SIZE, NULL);
        struct rpma_mr_remote *forged = forged_region(self, &session, DESCRIPTOR_KEY_OFFSET + byte, 0x10);
        memset(session.local.ptr, 1, MEMORY_SIZE);
        int posted = byte % 2 ? rpma_read(session.conn, session.local.mr, 0, forged, 0, 64, ALWAYS, &session)
                              : rpma_write(session.conn, forged, 0, session.local.mr, 0, 64, ALWAYS, &session);
        expect_access_error(&session, posted);
    }
}

INTEGRATION_TEST(an_access_past_the_registered_region_is_a_remote_access_error)
{
    struct session session = open_session(self, MEMORY_SIZE, NULL);
    struct rpma_mr_remote *forged =
            forged_region(self, &session, DESCRIPTOR_LENGTH_OFFSET + 2, 0x10); /* one MiB too long */
    expect_access_error(
            &session, rpma_write(session.conn, forged, MEMORY_SIZE - 4, session.local.mr, 0, 8, ALWAYS, &session));
}

INTEGRATION_TEST(an_unsignalled_operation_completes_when_it_fails)
{
    struct session session = open_session(self, MEMORY_SIZE, NULL);
    struct rpma_mr_remote *forged = forged_region(self, &session, DESCRIPTOR_KEY_OFFSET, 1);
    expect_access_error(&session, rpma_write(session.conn, forged, 0, session.local.mr, 0, 8, ON_ERROR, &session));
}

static struct session open_restricted(struct side *self, int usage)
{
    struct server *server = start_server(self, "memory", "%d %d - 4096", MEMORY_SIZE, usage);
    return open_session_with(self, server, MEMORY_SIZE, NULL);
}

INTEGRATION_TEST(a_region_to_read_from_cannot_be_written)
{
    struct session session = open_restricted(self, RPMA_MR_USAGE_READ_SRC);
    memset(session.local.ptr, 1, MEMORY_SIZE);
    expect_access_error(
            &session, rpma_write(session.conn, session.remote, 0, session.local.mr, 0, 64, ALWAYS, &session));
    session = open_restricted(self, RPMA_MR_USAGE_READ_SRC);
    expect_access_error(&session, rpma_atomic_write(session.conn, session.remote, 0, "8 bytes", ALWAYS, &session));
}

INTEGRATION_TEST(a_region_to_write_to_cannot_be_read)
{
    struct session session = open_restricted(self, RPMA_MR_USAGE_WRITE_DST);
    expect_access_error(
            &session, rpma_read(session.conn, session.local.mr, 0, session.remote, 0, 64, ALWAYS, &session));
}

INTEGRATION_TEST(a_deregistered_region_is_a_remote_access_error)
{
    struct session session = open_session(self, MEMORY_SIZE, NULL);
    ask(session.server->link, "deregister");
    expect_access_error(
            &session, rpma_write(session.conn, session.remote, 0, session.local.mr, 0, 64, ALWAYS, &session));
}

INTEGRATION_TEST(a_local_region_without_the_usage_is_a_local_protection_error)
{
    struct session session = open_session(self, MEMORY_SIZE, NULL);
    struct region source = make_region(self, session.peer, 4096, RPMA_MR_USAGE_SEND);
    CHECK_OK(rpma_read(session.conn, source.mr, 0, session.remote, 0, 64, ALWAYS, &session));
    expect_failure(session.cq, IBV_WC_LOC_PROT_ERR, &session);
}

INTEGRATION_TEST(a_message_longer_than_the_receive_breaks_both_sides)
{
    struct session session = open_session(self, MEMORY_SIZE, NULL);
    ask(session.server->link, "recv 0 64 1");
    memset(session.local.ptr, 1, MEMORY_SIZE);
    CHECK_OK(rpma_send(session.conn, session.local.mr, 0, 65, ALWAYS, &session));
    /* The SoftRoCE of the kernel reports an operation error. */
    struct ibv_wc wc = next_completion(session.cq);
    CHECK(wc.status == IBV_WC_REM_INV_REQ_ERR || wc.status == IBV_WC_REM_OP_ERR);
    CHECK_EQ(wc.wr_id, (uintptr_t)&session);
    enum ibv_wc_status received = collect_completion(session.server).status;
    CHECK(received == IBV_WC_LOC_LEN_ERR || received == IBV_WC_LOC_QP_OP_ERR);
    ask(session.server->link, "message 64 64 0");
}

INTEGRATION_TEST(a_message_waits_for_its_receive)
{
    struct session session = open_session(self, MEMORY_SIZE, NULL);
    fill_pattern(session.local.ptr, 100, 4);
    CHECK_OK(rpma_send(session.conn, session.local.mr, 0, 100, ALWAYS, &session));
    sleep_ms(50);
    struct ibv_wc wc;
    CHECK_RPMA(rpma_cq_get_wc(session.cq, 1, &wc, NULL), RPMA_E_NO_COMPLETION);
    ask(session.server->link, "recv 0 4096 1");
    expect_completion(session.cq, IBV_WC_SEND, &session);
    CHECK_EQ(collect_completion(session.server).byte_len, 100);
    ask(session.server->link, "message 0 100 4");
}

INTEGRATION_TEST(operations_after_a_waiting_message_wait)
{
    struct session session = open_session(self, MEMORY_SIZE, NULL);
    char marks[3];
    fill_pattern(session.local.ptr, MEMORY_SIZE, 4);
    CHECK_OK(rpma_send(session.conn, session.local.mr, 0, 100, ALWAYS, &marks[0]));
    CHECK_OK(rpma_write(session.conn, session.remote, 0, session.local.mr, 0, 4096, ALWAYS, &marks[1]));
    CHECK_OK(rpma_read(session.conn, session.local.mr, 4096, session.remote, 0, 4096, ALWAYS, &marks[2]));
    sleep_ms(50);
    ask(session.server->link, "check 0 4096 0");
    ask(session.server->link, "recv 0 4096 1");
    expect_completion(session.cq, IBV_WC_SEND, &marks[0]);
    expect_completion(session.cq, IBV_WC_RDMA_WRITE, &marks[1]);
    expect_completion(session.cq, IBV_WC_RDMA_READ, &marks[2]);
    CHECK_EQ(collect_completion(session.server).byte_len, 100);
    ask(session.server->link, "message 0 100 4");
    ask(session.server->link, "check 0 4096 4");
    check_pattern(session.local.ptr + 4096, 4096, 4);
}

INTEGRATION_TEST(ranges_outside_a_region_are_refused_before_posting)
{
    needs_no_older_library();
    struct session session = open_session(self, MEMORY_SIZE, NULL);
    struct rpma_conn *conn = session.conn;
    struct rpma_mr_local *local = session.local.mr;
    struct rpma_mr_remote *remote = session.remote;
    const struct {
        size_t remote_offset, local_offset, length;
    } bad[] = {
            {MEMORY_SIZE, 0, 1},
            {0, MEMORY_SIZE, 1},
            {0, 1, MEMORY_SIZE},
            {1, 0, MEMORY_SIZE},
            {0, 0, MEMORY_SIZE + 1},
            {SIZE_MAX, 0, 2},
            {0, SIZE_MAX, 2},
            {8, 8, SIZE_MAX},
            {SIZE_MAX - 7, SIZE_MAX - 7, 8},
            {0, 0, 0x100000008},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); ++i) {
        size_t to = bad[i].remote_offset, from = bad[i].local_offset, length = bad[i].length;
        CHECK_RPMA(rpma_write(conn, remote, to, local, from, length, ALWAYS, NULL), RPMA_E_INVAL);
        CHECK_RPMA(rpma_read(conn, local, from, remote, to, length, ALWAYS, NULL), RPMA_E_INVAL);
        CHECK_RPMA(rpma_write_with_imm(conn, remote, to, local, from, length, ALWAYS, 1, NULL), RPMA_E_INVAL);
    }
    CHECK_RPMA(rpma_send(conn, local, 1, MEMORY_SIZE, ALWAYS, NULL), RPMA_E_INVAL);
    CHECK_RPMA(rpma_send_with_imm(conn, local, SIZE_MAX, 2, ALWAYS, 1, NULL), RPMA_E_INVAL);
    CHECK_RPMA(rpma_recv(conn, local, MEMORY_SIZE - 1, 2, NULL), RPMA_E_INVAL);
    CHECK_RPMA(rpma_atomic_write(conn, remote, MEMORY_SIZE, "8 bytes", ALWAYS, NULL), RPMA_E_INVAL);
    CHECK_RPMA(rpma_flush(conn, remote, 8, MEMORY_SIZE, RPMA_FLUSH_TYPE_VISIBILITY, ALWAYS, NULL), RPMA_E_INVAL);
    CHECK_RPMA(rpma_flush(conn, remote, 0, 8, (enum rpma_flush_type)7, ALWAYS, NULL), RPMA_E_INVAL);
    CHECK_RPMA(rpma_write(conn, remote, 0, local, 0, 8, 0, NULL), RPMA_E_INVAL);

    /* No operation was posted: the connection works and this is its first completion. */
    CHECK_OK(rpma_write(conn, remote, 0, local, 0, MEMORY_SIZE, ALWAYS, &session));
    expect_completion(session.cq, IBV_WC_RDMA_WRITE, &session);
}

INTEGRATION_TEST(a_region_that_is_not_mapped_cannot_be_registered)
{
    struct rpma_peer *peer = make_peer(self);
    struct rpma_mr_local *mr = NULL;
    CHECK_RPMA(rpma_mr_reg(peer, (void *)(uintptr_t)4096, 4096, RPMA_MR_USAGE_READ_SRC, &mr), RPMA_E_PROVIDER);
    CHECK(mr == NULL);
}

INTEGRATION_MAIN(NULL)
