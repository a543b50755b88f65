/* SPDX-License-Identifier: BSD-3-Clause */
/* Two processes with eight connections of mixed traffic: messages and their echoes, WRITEs with and without immediate
 * data that are flushed and read back, and an atomic counter. Every other connection uses files. Either process is
 * repeatedly stopped and continued: all data must arrive at its place, and no request may fail. Then one process is
 * killed: the other one must have received only sent data, and every connection must end. A side that ends has no
 * resources of its peer. TEST_MIXED_ROUNDS sets the number of rounds (default 8), TEST_SEED the moments. */
#include "native.h"
#include "remote.h"

#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>

enum {
    connections = 8,
    receives = 8,
    longest = 20000,
    side_size = 256 * 1024,
    counter_at = 40960, /* offset at the server */
    read_at = 32768,    /* offset at the client of the data that is read back */
    receive_at = 65536, /* offset of the receive buffers on both sides, in steps of step_size */
    echo_at = 250000,   /* offset at the server */
    step_size = 20480,
    steps = 5,
    hang_s = 120, /* a side that should have ended is killed after this time */
};

/* wr_id of requests other than receives. */
enum {
    own_send = 100,
    own_write,
    own_flush,
    own_read,
    own_add,
};

struct shared {
    volatile int connected;
    volatile int got_on; /* every connection has completed steps */
    volatile int finish;
    volatile int died; /* one side is killed, so the other one expects failures */
};

static struct shared *all;
static struct resources without_peer;

/* Counts after one use, because some objects are created only once per process. */
static void count_resources(void)
{
    struct pair alone = {0};
    open_listener(&alone, "127.0.0.1");
    resolve_client(&alone, NULL);
    close_pair(&alone);
    without_peer = resources_of(getpid());
}

static unsigned length_of(uint64_t n)
{
    static const unsigned lengths[] = {8, 64, 1024, 4000, longest};
    return lengths[n % 5];
}

static uint64_t word_of(unsigned connection, uint64_t n, unsigned at)
{
    return (uint64_t)connection << 56 | n << 24 | at;
}

static void write_pattern(uint8_t *to, unsigned connection, uint64_t n)
{
    for (unsigned at = 0; at < length_of(n); at += 8) {
        const uint64_t word = word_of(connection, n, at);
        memcpy(to + at, &word, sizeof(word));
    }
}

static void expect_pattern(const uint8_t *from, unsigned connection, uint64_t n)
{
    for (unsigned at = 0; at < length_of(n); at += 8) {
        uint64_t word = 0;
        memcpy(&word, from + at, sizeof(word));
        assert_int_equal(word, word_of(connection, n, at));
    }
}

/* An expected failure ends the connection; another failure ends the test. */
static bool failed(bool failure)
{
    if (failure)
        assert_int_equal(all->died, 1);
    return failure;
}

static bool has_ended(struct rdma_event_channel *channel)
{
    struct pollfd readable = {.fd = channel->fd, .events = POLLIN};
    if (poll(&readable, 1, 0) != 1)
        return false;
    return expect_event(channel, RDMA_CM_EVENT_DISCONNECTED) == 0;
}

/* The server: receives messages in order, and echoes their numbers. */

struct served {
    struct pair p;
    uint64_t next;
    bool broken;
    bool ended;
};

static void serve_completion(struct served *s, unsigned connection, const struct ibv_wc *wc)
{
    if (failed(wc->status != IBV_WC_SUCCESS)) {
        s->broken = true;
        return;
    }
    if (wc->wr_id >= receives)
        return;
    const size_t at = receive_at + wc->wr_id * step_size;
    if (wc->opcode == IBV_WC_RECV_RDMA_WITH_IMM) { /* follows the echo of the same step */
        assert_int_equal(wc->byte_len, length_of(s->next - 1));
        expect_pattern(s->p.server.memory, connection, s->next - 1);
        s->broken = failed(post_receive(&s->p.server, wc->wr_id, at, step_size) != 0);
        return;
    }
    assert_int_equal(wc->byte_len, length_of(s->next));
    expect_pattern(s->p.server.memory + at, connection, s->next);
    memcpy(s->p.server.memory + echo_at, &s->next, sizeof(s->next));
    ++s->next;
    s->broken = failed(post_receive(&s->p.server, wc->wr_id, at, step_size) != 0) ||
                failed(post(&s->p.server, IBV_WR_SEND, own_send, echo_at, 8, NULL, 0, IBV_SEND_INLINE) != 0);
}

static void accept_connection(struct served *s, int out, bool file)
{
    accept_child(&s->p, out,
            &(struct options){.size = side_size,
                    .server_file = file ? MAP_SHARED : 0,
                    .server_access = (int)everything | IBV_ACCESS_REMOTE_ATOMIC | access_flush_persistent});
    for (unsigned i = 0; i < receives; ++i)
        assert_int_equal(post_receive(&s->p.server, i, receive_at + i * step_size, step_size), 0);
    send_greeting(out, &(struct greeting){.addr = (uintptr_t)s->p.server.memory, .rkey = s->p.server.mr->rkey});
}

static void serve(int out)
{
    static struct served sides[connections];
    for (unsigned c = 0; c < connections; ++c)
        accept_connection(&sides[c], out, c % 2 == 0);
    for (unsigned left = connections; left > 0; sched_yield()) {
        for (unsigned c = 0; c < connections; ++c) {
            struct served *s = &sides[c];
            struct ibv_wc wc;
            while (!s->broken && !s->ended && !all->finish && ibv_poll_cq(s->p.server.cq, 1, &wc) == 1)
                serve_completion(s, c, &wc);
            if (!s->ended && (all->finish || all->died) && has_ended(s->p.listen_channel)) {
                s->ended = true;
                --left;
            }
        }
    }
    for (unsigned c = 0; c < connections; ++c)
        close_pair(&sides[c].p);
    expect_resources(getpid(), &without_peer);
    exit(0);
}

/* The client: each connection performs the same steps independently. */

struct caller {
    struct remote r;
    uint64_t n;
    unsigned awaited; /* completions of the current step */
    unsigned step;
    bool broken;
    bool ended;
};

static void begin_step(struct caller *k, unsigned connection)
{
    struct side *own = &k->r.pair.client;
    const unsigned length = length_of(k->n);
    int error = 0;
    k->awaited = 1;
    switch (k->step) {
    case 0:
        write_pattern(own->memory, connection, k->n);
        k->awaited = 2; /* its echo is awaited, too */
        error = post(own, IBV_WR_SEND, own_send, 0, length, NULL, 0, 0);
        break;
    case 1:
        error = post(own, k->n % 2 == 0 ? IBV_WR_RDMA_WRITE_WITH_IMM : IBV_WR_RDMA_WRITE, own_write, 0, length,
                &k->r.target, 0, 0);
        break;
    case 2:
        error = post_flush(own, own_flush, &k->r.target, 0, length, flush_persistent, flush_range);
        break;
    case 3:
        memset(own->memory + read_at, 0, length);
        error = post(own, IBV_WR_RDMA_READ, own_read, read_at, length, &k->r.target, 0, 0);
        break;
    default:
        error = post_atomic(own, IBV_WR_ATOMIC_FETCH_AND_ADD, own_add, &k->r.target, counter_at, 1, 0);
    }
    k->broken = failed(error != 0);
}

static void expect_echo(struct caller *k, const struct ibv_wc *wc)
{
    uint64_t n = 0;
    struct side *own = &k->r.pair.client;
    assert_int_equal(wc->byte_len, sizeof(n));
    memcpy(&n, own->memory + receive_at + wc->wr_id * 64, sizeof(n));
    assert_int_equal(n, k->n);
    k->broken = failed(post_receive(own, wc->wr_id, receive_at + wc->wr_id * 64, 64) != 0);
}

static void take_completion(struct caller *k, unsigned connection, const struct ibv_wc *wc)
{
    const struct side *own = &k->r.pair.client;
    if (failed(wc->status != IBV_WC_SUCCESS)) {
        k->broken = true;
        return;
    }
    if (wc->wr_id < receives)
        expect_echo(k, wc);
    if (wc->wr_id == own_read)
        expect_pattern(own->memory + read_at, connection, k->n);
    if (wc->wr_id == own_add) {
        uint64_t before = 0;
        memcpy(&before, own->memory, sizeof(before));
        assert_int_equal(before, k->n);
    }
    if (--k->awaited > 0)
        return;
    k->step = (k->step + 1) % steps;
    k->n += k->step == 0;
}

static void call(struct caller *k, int in)
{
    k->r = (struct remote){.in = in, .size = side_size, .send_ops = send_op_flush, .ack_timeout = no_ack_timeout};
    meet_server(&k->r);
    for (unsigned i = 0; i < receives; ++i)
        assert_int_equal(post_receive(&k->r.pair.client, i, receive_at + i * 64, 64), 0);
}

static bool all_have_got_on(const struct caller *callers)
{
    for (unsigned c = 0; c < connections; ++c) {
        if (callers[c].n == 0)
            return false;
    }
    return true;
}

static void work(int in)
{
    static struct caller callers[connections];
    unsigned left = connections;
    for (unsigned c = 0; c < connections; ++c)
        call(&callers[c], in);
    all->connected = 1;
    bool finishing = false;
    for (; left > 0; sched_yield()) {
        for (unsigned c = 0; c < connections; ++c) {
            struct caller *k = &callers[c];
            struct ibv_wc wc;
            if (!k->broken && k->awaited == 0 && !finishing)
                begin_step(k, c);
            while (!k->broken && !k->ended && ibv_poll_cq(k->r.pair.client.cq, 1, &wc) == 1 && !finishing)
                take_completion(k, c, &wc);
            if (!k->ended && (finishing || all->died) && has_ended(k->r.pair.client.channel)) {
                k->ended = true;
                --left;
            }
        }
        all->got_on = all->got_on || all_have_got_on(callers);
        if (all->finish && !finishing) {
            finishing = true;
            for (unsigned c = 0; c < connections; ++c)
                assert_int_equal(rdma_disconnect(callers[c].r.pair.client.id), 0);
        }
    }
    for (unsigned c = 0; c < connections; ++c)
        close_pair(&callers[c].r.pair);
    expect_resources(getpid(), &without_peer);
    exit(0);
}

static pid_t start(void (*side)(int), int end, int other)
{
    const pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        close(other);
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(hang_s);
        count_resources();
        side(end);
    }
    return pid;
}

static void start_both(pid_t pids[2])
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    all->connected = all->got_on = all->finish = all->died = 0;
    pids[0] = start(serve, ends[1], ends[0]);
    pids[1] = start(work, ends[0], ends[1]);
    close(ends[0]);
    close(ends[1]);
    AWAIT(all->connected);
}

static unsigned rounds(void)
{
    return number_from("TEST_MIXED_ROUNDS", 8);
}

TEST(sides_that_are_stopped_and_continued_lose_nothing)
{
    pid_t pids[2];
    for (unsigned left = rounds(); left > 0;) {
        start_both(pids);
        for (unsigned i = 0; i < 20 && left > 0; ++i, --left) {
            usleep((useconds_t)(rand() % 10000));
            kill(pids[i % 2], SIGSTOP);
            usleep((useconds_t)(rand() % 30000));
            kill(pids[i % 2], SIGCONT);
        }
        usleep(100000);
        for (unsigned i = 0; i < hang_s * 1000 && !all->got_on; ++i)
            usleep(1000);
        assert_int_equal(all->got_on, 1);
        all->finish = 1;
        assert_int_equal(exit_code_of(pids[1]), 0);
        assert_int_equal(exit_code_of(pids[0]), 0);
    }
}

TEST(a_side_whose_peer_is_killed_ends_every_connection)
{
    pid_t pids[2];
    const unsigned own = entries_in("/proc/self/fd", "");
    for (unsigned i = 0; i < rounds(); ++i) {
        start_both(pids);
        usleep((useconds_t)(rand() % 30000));
        all->died = 1;
        kill_child(pids[i % 2]);
        assert_int_equal(exit_code_of(pids[1 - i % 2]), 0);
    }
    assert_int_equal(entries_in("/proc/self/fd", ""), own);
}

int main(void)
{
    const unsigned start_value = number_from("TEST_SEED", (unsigned)getpid());
    print_message("seed %u, %u rounds\n", start_value, rounds());
    srand(start_value);
    all = mmap(NULL, sizeof(*all), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (all == MAP_FAILED)
        return 1;
    return run_registered_tests();
}
