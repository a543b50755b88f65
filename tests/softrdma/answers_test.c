/* SPDX-License-Identifier: BSD-3-Clause */
/* WRITEs whose responses are not awaited, because other requests follow them. */
#include "remote.h"

#include <signal.h>

enum {
    count = 16,
    place = 8, /* size of each request in bytes */
    long_write = 1024 * 1024,
};

/* Requests that write to the same offset of the peer. */
struct chain {
    struct ibv_sge sges[count];
    struct ibv_send_wr wrs[count];
};

/* Prepares consecutive WRITEs of `bytes` bytes, all unsignaled. The caller then changes some of them. */
static void prepare(struct chain *c, const struct side *from, const struct side *to, size_t bytes)
{
    memset(c, 0, sizeof(*c));
    for (size_t i = 0; i < count; ++i) {
        const size_t offset = i * bytes;
        c->sges[i] = sge_of(from, offset, bytes);
        c->wrs[i] = (struct ibv_send_wr){.wr_id = i,
                .next = i + 1 < count ? &c->wrs[i + 1] : NULL,
                .sg_list = &c->sges[i],
                .num_sge = 1,
                .opcode = IBV_WR_RDMA_WRITE};
        c->wrs[i].wr.rdma.remote_addr = (uintptr_t)to->memory + offset;
        c->wrs[i].wr.rdma.rkey = to->mr->rkey;
    }
}

static void post_chain(const struct side *from, struct chain *c)
{
    struct ibv_send_wr *bad = NULL;
    assert_int_equal(ibv_post_send(from->qp, c->wrs, &bad), 0);
}

/* The first test: a child of a process that used the device cannot release what that process has. Sends more than the
 * network takes while the server is stopped: started requests complete, the others wait until
 * the queue resumes. */
TEST_IN_OWN_PROCESS(a_drained_queue_does_not_wait_for_missing_responses)
{
    struct chain c;
    MEET_SERVER(r, &(struct server_plan){.size = (size_t)count * long_write}, NULL);
    struct side *client = &r.pair.client;
    fill(client->memory, r.size, 3);
    suspend_server(&r);
    prepare(&c, client, &r.target, long_write);
    c.wrs[count - 1].send_flags = IBV_SEND_SIGNALED;
    post_chain(client, &c);
    struct ibv_qp_attr attr = {.qp_state = IBV_QPS_SQD, .en_sqd_async_notify = 1};
    assert_int_equal(ibv_modify_qp(client->qp, &attr, IBV_QP_STATE | IBV_QP_EN_SQD_ASYNC_NOTIFY), 0);
    assert_int_equal(kill(r.pid, SIGCONT), 0);
    expect_async(client->id->verbs, IBV_EVENT_SQ_DRAINED, client->qp);
    assert_int_equal(enter_state(client->qp, IBV_QPS_RTS), 0);
    expect_completion(client->cq, count - 1, IBV_WC_SUCCESS);
    assert_memory_equal(r.page, client->memory, r.size);
}

PAIR_TEST(the_last_answer_completes_all, connected)
{
    struct chain c;
    for (unsigned round = 0; round < 20; ++round) { /* many times the capacity of the queue */
        prepare(&c, &p->client, &p->server, place);
        fill(p->client.memory, count * place, round);
        c.wrs[count - 1].send_flags = IBV_SEND_SIGNALED;
        post_chain(&p->client, &c);
        expect_completion(p->client.cq, count - 1, IBV_WC_SUCCESS);
        assert_memory_equal(p->server.memory, p->client.memory, count * place);
    }
    expect_no_completion(p->client.cq);
}

/* The program receives no completion for these requests: they are executed, and keep their entries in the queue. */
PAIR_TEST(unsignaled_requests_keep_their_entries, connected)
{
    struct chain c;
    prepare(&c, &p->client, &p->server, place);
    post_chain(&p->client, &c);
    post_and_expect(&p->server, IBV_WR_RDMA_READ, 1, 0, place, &p->client, 0, IBV_WC_SUCCESS);
    assert_int_equal(post(&p->client, IBV_WR_RDMA_WRITE, 2, 0, place, &p->server, 0, 0), ENOMEM);
    expect_no_completion(p->client.cq);
}

/* The peer rejects the request, or it cannot be sent. Then it gets no response for the earlier ones either. */
TEST(a_request_fails_by_its_own_number_after_earlier_ones)
{
    for (uint32_t local = 0; local < 2; ++local) {
        OPEN_PAIR(p, NULL);
        struct chain c;
        prepare(&c, &p.client, &p.server, place);
        fill(p.client.memory, count * place, 1);
        c.sges[5].lkey ^= local;
        c.wrs[5].wr.rdma.rkey ^= 1 - local;
        post_chain(&p.client, &c);
        expect_completion(p.client.cq, 5, local ? IBV_WC_LOC_PROT_ERR : IBV_WC_REM_ACCESS_ERR);
        for (uint64_t i = 6; i < count; ++i)
            expect_completion(p.client.cq, i, IBV_WC_WR_FLUSH_ERR);
        assert_memory_equal(p.server.memory, p.client.memory, 5 * place);
    }
}
