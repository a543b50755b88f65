// SPDX-License-Identifier: BSD-3-Clause
#include "rdma.h"

/* Defined since rdma-core 45 and 44. */
#define WC_FLUSH 8
#define WC_ATOMIC_WRITE 9

struct rpma_conn_req *next_request(struct side *self, struct rpma_ep *ep, const struct rpma_conn_cfg *cfg)
{
    int fd = -1;
    CHECK_OK(rpma_ep_get_fd(ep, &fd));
    CHECK(readable_by(fd, deadline()));
    struct rpma_conn_req *req = NULL;
    CHECK_OK(rpma_ep_next_conn_req(ep, cfg, &req));
    scope_add(&self->scope, release_req, req);
    return req;
}

struct rpma_conn_req *new_request(
        struct side *self, struct rpma_peer *peer, const char *port, const struct rpma_conn_cfg *cfg)
{
    struct rpma_conn_req *req = NULL;
    CHECK_OK(rpma_conn_req_new(peer, self->addr, port, cfg, &req));
    scope_add(&self->scope, release_req, req);
    return req;
}

struct rpma_conn *connect_request(
        struct side *self, struct rpma_conn_req *req, const struct rpma_conn_private_data *pdata)
{
    scope_forget(&self->scope, req);
    struct rpma_conn *conn = NULL;
    CHECK_OK(rpma_conn_req_connect(&req, pdata, &conn));
    CHECK(req == NULL);
    scope_add(&self->scope, release_conn, conn);
    return conn;
}

enum rpma_conn_event next_event(struct rpma_conn *conn)
{
    int fd = -1;
    CHECK_OK(rpma_conn_get_event_fd(conn, &fd));
    if (!readable_by(fd, deadline()))
        check_failed(__FILE__, __LINE__, "no connection event in time");
    enum rpma_conn_event event = RPMA_CONN_UNDEFINED;
    CHECK_OK(rpma_conn_next_event(conn, &event));
    return event;
}

void expect_event(struct rpma_conn *conn, enum rpma_conn_event expected)
{
    enum rpma_conn_event event = next_event(conn);
    if (event != expected)
        check_failed(__FILE__, __LINE__, "%s instead of %s", rpma_utils_conn_event_2str(event),
                rpma_utils_conn_event_2str(expected));
}

void expect_end(struct rpma_conn *conn)
{
    enum rpma_conn_event event = next_event(conn);
    if (event != RPMA_CONN_CLOSED && event != RPMA_CONN_LOST)
        check_failed(__FILE__, __LINE__, "%s instead of an end", rpma_utils_conn_event_2str(event));
}

struct rpma_cq *main_cq(const struct rpma_conn *conn)
{
    struct rpma_cq *cq = NULL;
    CHECK_OK(rpma_conn_get_cq(conn, &cq));
    return cq;
}

struct ibv_wc next_completion(struct rpma_cq *cq)
{
    int64_t until = deadline();
    int fd = -1;
    struct ibv_wc wc;
    CHECK_OK(rpma_cq_get_fd(cq, &fd));
    for (;;) {
        int result = rpma_cq_get_wc(cq, 1, &wc, NULL);
        if (result == 0)
            return wc;
        CHECK_RPMA(result, RPMA_E_NO_COMPLETION);
        if (!readable_by(fd, until))
            check_failed(__FILE__, __LINE__, "no completion in time");
        CHECK_OK(rpma_cq_wait(cq));
    }
}

static void check_context(const struct ibv_wc *wc, const void *op_context)
{
    if (wc->wr_id != (uintptr_t)op_context)
        check_failed(__FILE__, __LINE__, "completion of %#llx instead of %p (%s)", (unsigned long long)wc->wr_id,
                op_context, ibv_wc_status_str(wc->status));
}

static struct ibv_wc expect_success(struct rpma_cq *cq, const void *op_context)
{
    struct ibv_wc wc = next_completion(cq);
    check_context(&wc, op_context);
    if (wc.status != IBV_WC_SUCCESS)
        check_failed(__FILE__, __LINE__, "completion with \"%s\"", ibv_wc_status_str(wc.status));
    return wc;
}

struct ibv_wc expect_completion(struct rpma_cq *cq, enum ibv_wc_opcode opcode, const void *op_context)
{
    struct ibv_wc wc = expect_success(cq, op_context);
    CHECK_EQ(wc.opcode, opcode);
    return wc;
}

struct ibv_wc expect_failure(struct rpma_cq *cq, enum ibv_wc_status status, const void *op_context)
{
    struct ibv_wc wc = next_completion(cq);
    check_context(&wc, op_context);
    if (wc.status != status)
        check_failed(__FILE__, __LINE__, "completion with \"%s\" instead of \"%s\"", ibv_wc_status_str(wc.status),
                ibv_wc_status_str(status));
    return wc;
}

void expect_flush(struct rpma_cq *cq, const void *op_context)
{
    struct ibv_wc wc = expect_success(cq, op_context);
    CHECK((int)wc.opcode == WC_FLUSH || wc.opcode == IBV_WC_RDMA_READ);
}

void expect_atomic_write(struct rpma_cq *cq, const void *op_context)
{
    struct ibv_wc wc = expect_success(cq, op_context);
    CHECK((int)wc.opcode == WC_ATOMIC_WRITE || wc.opcode == IBV_WC_RDMA_WRITE);
}

struct rpma_conn *accept_next(
        struct side *self, struct rpma_ep *ep, const struct rpma_conn_cfg *cfg, const struct greeting *greeting)
{
    struct rpma_conn_private_data pdata = {.ptr = (void *)greeting, .len = sizeof(*greeting)};
    struct rpma_conn *conn = connect_request(self, next_request(self, ep, cfg), greeting ? &pdata : NULL);
    expect_event(conn, RPMA_CONN_ESTABLISHED);
    return conn;
}

struct rpma_conn *connect_to(
        struct side *self, struct rpma_peer *peer, const char *port, const struct rpma_conn_cfg *cfg)
{
    struct rpma_conn *conn = connect_request(self, new_request(self, peer, port, cfg), NULL);
    expect_event(conn, RPMA_CONN_ESTABLISHED);
    struct rpma_conn_private_data pdata;
    CHECK_OK(rpma_conn_get_private_data(conn, &pdata));
    if (pdata.len >= sizeof(struct greeting)) {
        struct rpma_peer_cfg *cfg_of_server = NULL;
        CHECK_OK(rpma_peer_cfg_from_descriptor(&received_greeting(conn)->peer_cfg, 1, &cfg_of_server));
        int result = rpma_conn_apply_remote_peer_cfg(conn, cfg_of_server);
        CHECK_OK(rpma_peer_cfg_delete(&cfg_of_server));
        CHECK_OK(result);
    }
    return conn;
}
