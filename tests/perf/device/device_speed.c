/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * Compares the cost of the device's operations with the time that the machine needs for the same work. Both are
 * measured in turn.
 *
 * usage: softrdma run -- device_speed shm|tcp|roce|threads
 *
 * Prints a line for each operation, separated by tabs: operation, bytes, nanoseconds, baseline, its nanoseconds, and 1
 * if a processor was slowed down during the measurement. With `threads`, prints the line of show_threads() for threads
 * that write to and flush a mapped file, with a queue pair each.
 */
#include "floors.h"
#include "native.h"
#include "remote.h"
#include "timing.h"

#include <stdio.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <signal.h>
#include <unistd.h>

enum {
    window = 16, /* large writes in flight: the capacity of the queue */
    rate_window = 14,
    series = 100, /* writes of a batch; a busy machine takes long for more */
    crowd = 512,
    receives = 8,
    apart = 2048,             /* distance of source and target in one buffer */
    unread = memory_size / 2, /* source of sent data; no data arrives there */
    access_all = everything | access_flush_global | access_flush_persistent,
};

struct bench {
    struct remote r;
    struct floors floors;
    struct ibv_qp_ex *qp;
    unsigned batch; /* number of writes of a call */
    wr_flush_function flush;
    uint8_t flush_level;
};

static void show(const char *operation, size_t bytes, struct both times, const char *floor_name)
{
    printf("%s\t%zu\t%.1f\t%s\t%.1f\t%d\n", operation, bytes, times.one, floor_name, times.other, times.disturbed);
    fflush(stdout);
}

static void collect(struct side *side)
{
    struct ibv_wc wc;
    while (ibv_poll_cq(side->cq, 1, &wc) == 0)
        continue;
    if (wc.status != IBV_WC_SUCCESS) {
        fprintf(stderr, "device_speed: %s\n", ibv_wc_status_str(wc.status));
        exit(1);
    }
}

static void post_write(struct bench *b, unsigned flags)
{
    struct side *c = &b->r.pair.client;
    b->qp->wr_id = 1;
    b->qp->wr_flags = flags;
    ibv_wr_rdma_write(b->qp, b->r.mr.rkey, (uintptr_t)b->r.target.memory + offset);
    ibv_wr_set_sge(b->qp, c->mr->lkey, (uintptr_t)c->memory, (uint32_t)b->floors.bytes);
}

static void complete(struct bench *b)
{
    if (ibv_wr_complete(b->qp) != 0) {
        fprintf(stderr, "device_speed: ibv_post_send() failed\n");
        exit(1);
    }
    collect(&b->r.pair.client);
}

static void do_write_and_flush(void *bench)
{
    struct bench *b = bench;
    ibv_wr_start(b->qp);
    post_write(b, 0);
    b->qp->wr_flags = IBV_SEND_SIGNALED;
    b->flush(b->qp, b->r.mr.rkey, (uintptr_t)b->r.target.memory + offset, b->floors.bytes, b->flush_level, flush_range);
    complete(b);
}

static void do_read(void *bench)
{
    struct bench *b = bench;
    struct side *c = &b->r.pair.client;
    ibv_wr_start(b->qp);
    b->qp->wr_id = 1;
    b->qp->wr_flags = IBV_SEND_SIGNALED;
    ibv_wr_rdma_read(b->qp, b->r.mr.rkey, (uintptr_t)b->r.target.memory + offset);
    ibv_wr_set_sge(b->qp, c->mr->lkey, (uintptr_t)c->memory, (uint32_t)b->floors.bytes);
    complete(b);
}

/* Signals only the last write. */
static void do_writes(void *bench)
{
    struct bench *b = bench;
    ibv_wr_start(b->qp);
    for (unsigned i = 1; i < b->batch; ++i)
        post_write(b, 0);
    post_write(b, IBV_SEND_SIGNALED);
    complete(b);
}

/* Sends a message and receives its reply. */
static void do_message(void *bench)
{
    struct bench *b = bench;
    struct side *c = &b->r.pair.client;
    post_receive(c, 9, 0, b->floors.bytes);
    post(c, IBV_WR_SEND, 1, unread, b->floors.bytes, NULL, 0, 0);
    collect(c);
    collect(c);
}

static void answer_messages(struct pair *p)
{
    struct side *s = &p->server;
    struct ibv_wc wc;
    for (;;) {
        if (ibv_poll_cq(s->cq, 1, &wc) == 0 || (wc.opcode & IBV_WC_RECV) == 0)
            continue;
        post_receive(s, wc.wr_id, (wc.wr_id % receives) * sizes[2], sizes[2]);
        post(s, IBV_WR_SEND, 1, unread, wc.byte_len, NULL, 0, 0);
    }
}

static void prepare_server(void)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    pin(1);
}

static void start(struct bench *b, uint8_t *memory, void (*act)(struct pair *))
{
    *b = (struct bench){.floors.source = malloc(memory_size), .batch = 1, .flush_level = flush_global};
    fill(b->floors.source, memory_size, 1); /* never-written memory maps the zero page, which is read faster */
    start_server(&b->r,
            &(struct server_plan){.prepare = prepare_server,
                    .size = memory_size,
                    .receives = act != NULL ? receives : 0,
                    .act = act,
                    .access = access_all,
                    .send_ops =
                            IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_SEND | send_op_flush},
            memory);
}

static void join(struct bench *b)
{
    meet_server(&b->r);
    fill(b->r.pair.client.memory, memory_size, 2);
    b->qp = ibv_qp_to_qp_ex(b->r.pair.client.qp);
    b->flush = wr_flush_of(b->qp);
    b->floors.owner = b->r.pid;
    b->floors.target = b->r.page + offset;
    b->floors.theirs = b->r.target.memory + offset;
}

static void meet(struct bench *b, uint8_t *memory, void (*act)(struct pair *))
{
    start(b, memory, act);
    join(b);
}

static void leave(struct bench *b)
{
    free(b->floors.source);
    stop_server(&b->r);
}

static void compare(const char *operation, const struct contender *ours, const char *floor_name,
        const struct contender *floor, size_t bytes)
{
    show(operation, bytes, time_in_turns(ours, floor, bytes), floor_name);
}

/* Measures writes to a server that sleeps. */
static void measure_memory(const char *kind, uint8_t *memory, const char *floor_name, void (*floor_call)(void *))
{
    struct bench b;
    char name[64];
    meet(&b, memory, NULL);
    const struct contender floor = {floor_call, &b.floors, 1, 0};
    const struct {
        const char *operation;
        struct contender ours;
    } operations[] = {{"WRITE", {do_writes, &b, 1, 0}}, {"WRITE+FLUSH", {do_write_and_flush, &b, 1, 0}},
            {"READ", {do_read, &b, 1, 0}}};
    for (size_t i = 0; i < size_count; ++i) {
        b.floors.bytes = sizes[i];
        for (size_t n = 0; n < sizeof(operations) / sizeof(*operations); ++n) {
            snprintf(name, sizeof(name), "%s, %s", operations[n].operation, kind);
            compare(name, &operations[n].ours, floor_name, &floor, sizes[i]);
        }
    }
    b.floors.bytes = sizes[0];
    b.batch = rate_window;
    snprintf(name, sizeof(name), "WRITE rate, %s", kind);
    compare(name, &(struct contender){do_writes, &b, rate_window, 0}, floor_name, &floor, b.floors.bytes);
    b.floors.bytes = sizes[size_count - 1];
    b.batch = window;
    snprintf(name, sizeof(name), "WRITE bandwidth, %s", kind);
    compare(name, &(struct contender){do_writes, &b, window, 0}, floor_name, &floor, b.floors.bytes);
    leave(&b);
}

static void measure_private(void)
{
    measure_memory("private", NULL, "process_vm_writev", floor_process_vm);
}

static uint8_t *shared_file(void)
{
    const int fd = memfd_create("device_speed", MFD_CLOEXEC);
    assert_int_equal(ftruncate(fd, memory_size), 0);
    uint8_t *memory = mmap(NULL, memory_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    assert_ptr_not_equal(memory, MAP_FAILED);
    close(fd);
    return memory;
}

static void measure_mapped(void)
{
    measure_memory("mapped", shared_file(), "memcpy", floor_memcpy);
}

static void measure_durable(void)
{
    struct bench b;
    meet(&b, shared_file(), NULL);
    b.floors.bytes = sizes[1];
    b.flush_level = flush_persistent;
    compare("WRITE+FLUSH persistent, mapped", &(struct contender){do_write_and_flush, &b, 1, 0}, "memcpy, msync",
            &(struct contender){floor_memcpy_and_msync, &b.floors, 1, 0}, b.floors.bytes);
    leave(&b);
}

/* Measures messages while both ends poll. The result is half of a round trip. */
static void measure_messages(void)
{
    struct partner p;
    struct bench b;
    meet(&b, NULL, answer_messages);
    start_messenger(&p, sizes[0]);
    const struct contender ours = {do_message, &b, 2, b.r.pid};
    b.floors.bytes = sizes[0];
    compare("SEND", &ours, "shared memory", &(struct contender){exchange_message, &p, 2, p.pid}, sizes[0]);
    stop_partner(&p);
    const struct contender alone = {do_message, &b, 2, 0}; /* the server is never stopped, like that of UCX */
    for (size_t i = 1; i + 1 < size_count; ++i) {
        b.floors.bytes = sizes[i];
        show("SEND", sizes[i], time_in_turns(&alone, &alone, sizes[i]), "");
    }
    leave(&b);
}

struct connections {
    struct pair *pairs;
    size_t count; /* number of pairs, which are used in turn */
    size_t next;
};

static void write_in_turn(void *connections)
{
    struct connections *c = connections;
    struct pair *p = &c->pairs[c->next];
    c->next = (c->next + 1) % c->count;
    post(&p->client, IBV_WR_RDMA_WRITE, 1, 0, sizes[0], &p->server, apart, 0);
    collect(&p->client);
}

/* Measures many connections, both ends of which are in one process. */
static void measure_in_turn(const char *operation, bool one_region)
{
    struct connections c = {.pairs = calloc(crowd, sizeof(*c.pairs)), .count = crowd};
    const struct options borrowing = {.lender = &c.pairs[0].server};
    struct rlimit descriptors;
    getrlimit(RLIMIT_NOFILE, &descriptors);
    descriptors.rlim_cur = descriptors.rlim_max;
    setrlimit(RLIMIT_NOFILE, &descriptors);
    for (size_t i = 0; i < crowd; ++i)
        open_pair(&c.pairs[i], one_region && i > 0 ? &borrowing : NULL);
    for (size_t i = 0; i < crowd; ++i) /* not measured: first operation of each pair */
        write_in_turn(&c);
    struct connections alone = {.pairs = &c.pairs[crowd - 1], .count = 1};
    compare(operation, &(struct contender){write_in_turn, &c, 1, 0}, "one connection",
            &(struct contender){write_in_turn, &alone, 1, 0}, sizes[0]);
    for (size_t i = crowd; i > 0; --i)
        close_pair(&c.pairs[i - 1]);
    free(c.pairs);
}

static void measure_connections(void)
{
    measure_in_turn("WRITE, 512 in turn", true);
}

/* With many regions, the processor and the kernel must look up the memory, too. */
static void measure_connections_and_regions(void)
{
    measure_in_turn("WRITE, 512 in turn, own memory", false);
}

static void measure_threads(void)
{
    struct bench b[threads];
    struct contender each[threads];
    for (size_t i = 0; i < threads; ++i)
        start(&b[i], shared_file(), NULL);
    for (size_t i = 0; i < threads; ++i) {
        join(&b[i]);
        b[i].floors.bytes = sizes[0];
        each[i] = (struct contender){do_write_and_flush, &b[i], 1, 0};
    }
    show_threads(each, sizes[0]);
    for (size_t i = 0; i < threads; ++i)
        leave(&b[i]);
}

/* The server's thread may sleep or poll. Its counterpart in the baseline, on the same processor, polls. */
static void measure_tcp(void)
{
    struct bench b;
    struct partner p;
    meet(&b, NULL, NULL);
    for (size_t i = 0; i < size_count; ++i) {
        b.floors.bytes = sizes[i];
        start_on_tcp(&p, sizes[i], 1);
        const struct contender floor = {send_on_tcp, &p, 1, p.pid};
        compare("WRITE, TCP", &(struct contender){do_writes, &b, 1, 0}, "request, ack", &floor, sizes[i]);
        compare("WRITE+FLUSH, TCP", &(struct contender){do_write_and_flush, &b, 1, 0}, "request, ack", &floor,
                sizes[i]);
        stop_partner(&p);
    }
    const size_t max_size = sizes[size_count - 1];
    start_on_tcp(&p, max_size, window);
    b.batch = window;
    compare("WRITE bandwidth, TCP", &(struct contender){do_writes, &b, window, 0}, "stream",
            &(struct contender){send_on_tcp, &p, window, p.pid}, max_size);
    stop_partner(&p);
    leave(&b);
}

/* Waits for each write before the next one. */
static void do_write_series(void *bench)
{
    for (unsigned i = 0; i < series; ++i)
        do_writes(bench);
}

static void exchange_series(void *partner)
{
    for (unsigned i = 0; i < series; ++i)
        send_on_udp(partner);
}

/* Measures writes of few bytes, and the packet rate of long ones, beside UDP packets of equal sizes. */
static void measure_roce(void)
{
    struct bench b;
    struct partner p;
    struct ibv_qp_attr attr;
    struct ibv_qp_init_attr init;
    meet(&b, NULL, NULL);
    assert_int_equal(ibv_query_qp(b.r.pair.client.qp, &attr, IBV_QP_PATH_MTU, &init), 0);
    const size_t mtu = (size_t)128 << attr.path_mtu;
    char name[64];
    b.floors.bytes = sizes[0];
    start_on_udp(&p, sizes[0], 1, mtu);
    show("WRITE, RoCE", sizes[0],
            time_in_turns(&(struct contender){do_write_series, &b, series, 0},
                    &(struct contender){exchange_series, &p, series, p.pid}, sizes[2]),
            "UDP round trip");
    stop_partner(&p);
    b.floors.bytes = sizes[2];
    b.batch = window;
    start_on_udp(&p, sizes[2], window, mtu);
    snprintf(name, sizeof(name), "WRITE bandwidth, RoCE, MTU %zu", mtu);
    compare(name, &(struct contender){do_writes, &b, window, 0}, "UDP packets",
            &(struct contender){send_on_udp, &p, window, p.pid}, sizes[2]);
    stop_partner(&p);
    leave(&b);
}

int main(int argc, char **argv)
{
    static const struct {
        const char *name, *transport;
        void (*measure[7])(void);
    } modes[] = {{"shm", "shm",
                         {measure_private, measure_mapped, measure_durable, measure_messages, measure_connections,
                                 measure_connections_and_regions}},
            {"tcp", "tcp", {measure_tcp}}, {"roce", "roce", {measure_roce}}, {"threads", "shm", {measure_threads}}};
    for (size_t i = 0; i < sizeof(modes) / sizeof(*modes); ++i) {
        if (argc != 2 || strcmp(argv[1], modes[i].name) != 0)
            continue;
        setenv("SOFTRDMA_TRANSPORT", modes[i].transport, 1);
        pin(0);
        know_processors();
        for (size_t n = 0; modes[i].measure[n] != NULL; ++n)
            in_own_process(modes[i].measure[n]);
        return 0;
    }
    fprintf(stderr, "Usage: softrdma run -- device_speed shm|tcp|roce|threads\n");
    return 2;
}
