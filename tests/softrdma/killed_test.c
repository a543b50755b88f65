/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Either side of a busy connection is killed at a random moment: the other side is told and finishes, and nothing is
 * left behind. SOFTRDMA_KILL_ROUNDS says how often (default 20), SOFTRDMA_SEED what the moments are.
 */
#include "remote.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    page_size = 4096,
    survivor_limit_s = 30,
};

/* Uses everything there is until something fails, which has to happen. */
static void work_until_it_ends(struct side *own, const struct side *target, unsigned receives)
{
    const enum ibv_wr_opcode kinds[] = {IBV_WR_RDMA_WRITE, IBV_WR_SEND, IBV_WR_RDMA_READ, IBV_WR_RDMA_WRITE_WITH_IMM};
    uint64_t outstanding = 0;
    for (unsigned i = 0; i < receives; ++i)
        assert_int_equal(post_receive(own, 1000, 0, 2048), 0);
    for (uint64_t i = 0;; ++i) {
        const enum ibv_wr_opcode kind = kinds[i % 4];
        if (outstanding == 0) {
            assert_int_equal(post(own, kind, i % 4, 2048, i % 8 < 4 ? 64 : 1024, target, 2048, 0), 0);
            outstanding = 1;
        }
        struct ibv_wc wc;
        if (ibv_poll_cq(own->cq, 1, &wc) == 0)
            continue;
        if (wc.status != IBV_WC_SUCCESS)
            return;
        if (wc.wr_id == 1000)
            assert_int_equal(post_receive(own, 1000, 0, 2048), 0);
        else
            outstanding = 0;
    }
}

static void answer_until_it_ends(struct pair *p)
{
    alarm(survivor_limit_s);
    struct ibv_wc wc = {.status = IBV_WC_SUCCESS};
    unsigned polls = 0;
    while (wc.status == IBV_WC_SUCCESS) {
        if (ibv_poll_cq(p->server.cq, 1, &wc) == 1 && wc.status == IBV_WC_SUCCESS)
            assert_int_equal(post_receive(&p->server, 1, 0, 64), 0);
        /* Its queue pair is not touched by the peer's death: an own message finds out. */
        if (++polls % 100 == 0 && p->server.qp->state == IBV_QPS_RTS)
            (void)post(&p->server, IBV_WR_SEND, 2, 0, 8, NULL, 0, 0);
    }
    assert_int_equal(expect_event(p->listen_channel, RDMA_CM_EVENT_DISCONNECTED), 0);
    close_side(&p->server);
    exit(0);
}

static const struct server_plan answers = {.receives = 16, .act = answer_until_it_ends};

/* Both sides are children, so that either can be killed. */
static void client(int tell)
{
    struct remote r;
    alarm(survivor_limit_s);
    start_server(&r, &answers, NULL);
    meet_server(&r);
    if (write(tell, &r.pid, sizeof(r.pid)) != sizeof(r.pid))
        _exit(1);
    work_until_it_ends(&r.pair.client, &r.target, 8);
    assert_int_equal(expect_event(r.pair.client.channel, RDMA_CM_EVENT_DISCONNECTED), 0);
    int status = 0;
    waitpid(r.pid, &status, 0);
    close_pair(&r.pair);
    exit(0);
}

static void one_round(unsigned moment_us, bool kill_server)
{
    int ends[2];
    pid_t server = 0;
    assert_int_equal(pipe(ends), 0);
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(ends[0]);
        client(ends[1]);
    }
    close(ends[1]);
    const bool connected = read(ends[0], &server, sizeof(server)) == sizeof(server);
    close(ends[0]);
    assert_true(connected);
    usleep(moment_us);
    kill(kill_server ? server : pid, SIGKILL);
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (kill_server) {
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
        return;
    }
    /* The server is an orphan now: it ends by itself or by its alarm. */
    for (unsigned i = 0; i < survivor_limit_s * 100 && kill(server, 0) == 0; ++i) {
        waitpid(server, NULL, WNOHANG);
        usleep(10000);
    }
    assert_int_equal(kill(server, 0), -1);
}

static void a_killed_side_leaves_nothing_behind(void **state)
{
    (void)state;
    const char *rounds = getenv("SOFTRDMA_KILL_ROUNDS");
    const char *seed = getenv("SOFTRDMA_SEED");
    const unsigned count = rounds != NULL ? (unsigned)atoi(rounds) : 20;
    const unsigned start = seed != NULL ? (unsigned)atoi(seed) : (unsigned)getpid();
    print_message("seed %u, %u rounds\n", start, count);
    srand(start);
    for (unsigned i = 0; i < count; ++i)
        one_round((unsigned)(rand() % 20000), i % 2 == 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(a_killed_side_leaves_nothing_behind)};
    return cmocka_run_group_tests_name("killed", tests, NULL, NULL);
}
