/* SPDX-License-Identifier: BSD-3-Clause */
/* One side of a busy connection is killed at a random moment. The other side is notified and finishes. No descriptor,
 * mapping of the peer's memory, port or file may remain. TEST_KILL_ROUNDS sets the number of rounds (default 20),
 * TEST_SEED the moments. */
#include "remote.h"

#include <arpa/inet.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    survivor_limit_s = 30,
};

static unsigned lines_with(const char *path, const char *text)
{
    char line[512];
    unsigned count = 0;
    FILE *file = fopen(path, "re");
    assert_non_null(file);
    while (fgets(line, sizeof(line), file) != NULL)
        count += strstr(line, text) != NULL;
    fclose(file);
    return count;
}

static struct resources without_peer;

/* Counts after one round, because some objects are created only once per process. */
static void count_resources(void)
{
    struct pair alone = {0};
    alarm(survivor_limit_s);
    open_listener(&alone, "127.0.0.1");
    resolve_client(&alone, NULL);
    close_pair(&alone);
    without_peer = resources_of(getpid());
}

/* Uses all operations until one fails, which must happen. */
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
        if (ibv_poll_cq(p->server.cq, 1, &wc) == 1 && wc.status == IBV_WC_SUCCESS && (wc.opcode & IBV_WC_RECV) != 0)
            assert_int_equal(post_receive(&p->server, 1, 0, 64), 0);
        /* The peer's death does not change the state of this queue pair; only a request detects it. The request may
         * have to wait for a receive while other messages arrive. */
        if (++polls % 100 == 0)
            (void)post(&p->server, IBV_WR_SEND, 2, 0, 8, NULL, 0, IBV_SEND_INLINE);
    }
    assert_int_equal(expect_event(p->listen_channel, RDMA_CM_EVENT_DISCONNECTED), 0);
    close_pair(p);
    expect_resources(getpid(), &without_peer);
    exit(0);
}

static const struct server_plan answers = {.prepare = count_resources, .receives = 16, .act = answer_until_it_ends};

struct server_facts {
    pid_t pid;
    uint16_t port;
};

/* Both sides are child processes, so that either can be killed. */
static void client(int report_fd)
{
    struct remote r;
    start_server(&r, &answers, NULL);
    count_resources();
    meet_server(&r);
    const struct server_facts facts = {.pid = r.pid, .port = ntohs(rdma_get_dst_port(r.pair.client.id))};
    if (write(report_fd, &facts, sizeof(facts)) != sizeof(facts))
        _exit(1);
    work_until_it_ends(&r.pair.client, &r.target, 8);
    assert_int_equal(expect_event(r.pair.client.channel, RDMA_CM_EVENT_DISCONNECTED), 0);
    int status = 0;
    waitpid(r.pid, &status, 0);
    close_pair(&r.pair);
    expect_resources(getpid(), &without_peer);
    exit(0);
}

static void expect_no_listener(uint16_t port)
{
    char text[32];
    snprintf(text, sizeof(text), ":%04X 00000000:0000 0A", port);
    assert_int_equal(lines_with("/proc/net/tcp", text), 0);
}

static void one_round(unsigned moment_us, bool kill_server)
{
    int ends[2];
    struct server_facts server;
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
    kill(kill_server ? server.pid : pid, SIGKILL);
    if (kill_server) {
        assert_int_equal(exit_code_of(pid), 0);
    } else {
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        assert_int_equal(exit_code_of(server.pid), 0);
    }
    expect_no_listener(server.port);
}

DEFINE_TEST(a_killed_side_leaves_nothing_behind, NULL, NULL)
{
    const unsigned count = number_from("TEST_KILL_ROUNDS", 20);
    const unsigned start = number_from("TEST_SEED", (unsigned)getpid());
    print_message("seed %u, %u rounds\n", start, count);
    srand(start);
    assert_int_equal(prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0),
            0); /* a server whose client is killed becomes a child of this process */
    const unsigned own = entries_in("/proc/self/fd", "");
    const unsigned shared = entries_in("/dev/shm", "softrdma"); /* other programs have files there, too */
    for (unsigned i = 0; i < count; ++i)
        one_round((unsigned)(rand() % 20000), i % 2 == 0);
    assert_int_equal(entries_in("/proc/self/fd", ""), own);
    assert_int_equal(entries_in("/dev/shm", "softrdma"), shared);
}
