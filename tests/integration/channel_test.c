// SPDX-License-Identifier: BSD-3-Clause
/* Completion channels: the shared channel, and that of the receive CQ. */
#include "support/memory_server.h"

#define ALWAYS RPMA_F_COMPLETION_ALWAYS

/* Waits on the shared channel until cq has a completion, and returns it. */
static struct ibv_wc next_shared_completion(struct rpma_conn *conn, struct rpma_cq *cq, bool is_rcq)
{
    int fd = -1;
    CHECK_OK(rpma_conn_get_compl_fd(conn, &fd));
    struct ibv_wc wc;
    for (int64_t until = deadline();;) {
        CHECK(readable_by(fd, until));
        struct rpma_cq *ready = NULL;
        bool ready_is_rcq = !is_rcq;
        CHECK_OK(rpma_conn_wait(conn, 0, &ready, &ready_is_rcq));
        CHECK(ready == cq);
        CHECK_EQ(ready_is_rcq, is_rcq);
        int result = rpma_cq_get_wc(ready, 1, &wc, NULL);
        if (result == 0)
            return wc;
        CHECK_RPMA(result, RPMA_E_NO_COMPLETION);
    }
}

static void check_shared(struct session *session, struct rpma_cq *cq)
{
    int shared_fd = -1;
    CHECK_OK(rpma_conn_get_compl_fd(session->conn, &shared_fd));
    CHECK_EQ(cq_fd(cq), shared_fd);
    CHECK_RPMA(rpma_cq_wait(cq), RPMA_E_SHARED_CHANNEL);
}

static void expect_nothing_shared(struct session *session)
{
    int fd = -1;
    CHECK_OK(rpma_conn_get_compl_fd(session->conn, &fd));
    make_nonblocking(fd);
    struct rpma_cq *cq = NULL;
    bool is_rcq = true;
    CHECK_RPMA(rpma_conn_wait(session->conn, 0, &cq, &is_rcq), RPMA_E_NO_COMPLETION);
    CHECK(cq == NULL && is_rcq);
}

INTEGRATION_TEST(a_shared_channel_distinguishes_both_cqs)
{
    struct rpma_conn_cfg *cfg = make_cfg(self, (struct queues){.rcq = 10, .shared = true});
    struct session session = open_session(self, 4096, cfg);
    struct rpma_cq *rcq = receive_cq(session.conn);
    check_shared(&session, session.cq);
    check_shared(&session, rcq);
    for (int i = 0; i < 10; ++i) {
        CHECK_OK(rpma_recv(session.conn, session.local.mr, 0, 64, &session));
        ask(session.server->link, "send 0 64 1");
        struct ibv_wc wc = next_shared_completion(session.conn, rcq, true);
        CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RECV);
        CHECK_OK(rpma_write(session.conn, session.remote, 0, session.local.mr, 0, 64, ALWAYS, &session));
        wc = next_shared_completion(session.conn, session.cq, false);
        CHECK(wc.status == IBV_WC_SUCCESS && wc.opcode == IBV_WC_RDMA_WRITE);
    }
    expect_nothing_shared(&session);
}

INTEGRATION_MAIN(NULL)
