/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * What the local path costs beside what the machine itself takes for the same work, measured in turns in one run.
 * Prints medians and ratios; nothing here is right or wrong.
 *
 * usage: softrdma run -- softrdma_speed   (SOFTRDMA_PATH=tcp measures the network path)
 */
#include "remote.h"

#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    memory_size = 4 << 20,
    offset = 4096,
    samples = 5,
};

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static void pin(long cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)(cpu % sysconf(_SC_NPROCESSORS_ONLN)), &set);
    sched_setaffinity(0, sizeof(set), &set);
}

static void pin_second(void)
{
    pin(1);
}

struct bench {
    struct remote *r;
    size_t size;
    uint8_t *own; /* of the floors */
};

static void collect(struct side *side)
{
    struct ibv_wc wc;
    while (ibv_poll_cq(side->cq, 1, &wc) == 0)
        continue;
    if (wc.status != IBV_WC_SUCCESS) {
        fprintf(stderr, "speed: %s\n", ibv_wc_status_str(wc.status));
        exit(1);
    }
}

static void do_write(struct bench *b)
{
    post(&b->r->pair.client, IBV_WR_RDMA_WRITE, 1, 0, b->size, &b->r->target, offset, 0);
    collect(&b->r->pair.client);
}

static void do_write_and_flush(struct bench *b)
{
    post(&b->r->pair.client, IBV_WR_RDMA_WRITE, 1, 0, b->size, &b->r->target, offset, 0);
    post(&b->r->pair.client, IBV_WR_RDMA_READ, 2, memory_size - 8, 8, &b->r->target, offset, 0);
    collect(&b->r->pair.client);
    collect(&b->r->pair.client);
}

static void do_read(struct bench *b)
{
    post(&b->r->pair.client, IBV_WR_RDMA_READ, 1, 0, b->size, &b->r->target, offset, 0);
    collect(&b->r->pair.client);
}

static void floor_process_vm(struct bench *b)
{
    struct iovec from = {b->own, b->size};
    struct iovec to = {b->r->target.memory + offset, b->size};
    if (process_vm_writev(b->r->pid, &from, 1, &to, 1, 0) != (ssize_t)b->size)
        exit(1);
}

static void floor_memcpy(struct bench *b)
{
    memcpy(b->r->page + offset, b->own, b->size);
    atomic_thread_fence(memory_order_seq_cst);
}

/* One way of a ping-pong of messages. */
static void do_message(struct bench *b)
{
    struct side *c = &b->r->pair.client;
    post_receive(c, 9, 0, b->size);
    post(c, IBV_WR_SEND, 1, 0, b->size, NULL, 0, 0);
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
        post_receive(s, wc.wr_id, (wc.wr_id % 8) * 65536, 65536);
        post(s, IBV_WR_SEND, 1, 0, wc.byte_len, NULL, 0, 0);
    }
}

static int by_value(const void *a, const void *b)
{
    double difference = *(const double *)a - *(const double *)b;
    return difference < 0 ? -1 : difference > 0;
}

static double median(double *values, size_t count)
{
    qsort(values, count, sizeof(*values), by_value);
    return values[count / 2];
}

/* Of one operation: the median of short batches, most of which nothing else on the machine interrupts. */
static double time_of(void (*operation)(struct bench *), struct bench *b)
{
    enum {
        batches = 201
    };
    double values[batches];
    const unsigned count = b->size >= 65536 ? 1 : 20;
    operation(b);
    for (unsigned i = 0; i < batches; ++i) {
        double start = now_ns();
        for (unsigned n = 0; n < count; ++n)
            operation(b);
        values[i] = (now_ns() - start) / count;
    }
    return median(values, batches);
}

/* Medians of both and of their ratios, taken in turns. */
static void compare(const char *what, void (*operation)(struct bench *), const char *beside,
        void (*floor_operation)(struct bench *), struct bench *b)
{
    double ours[samples], floors[samples], ratios[samples];
    for (unsigned i = 0; i < samples; ++i) {
        floors[i] = time_of(floor_operation, b);
        ours[i] = time_of(operation, b);
        ratios[i] = ours[i] / floors[i];
    }
    printf("%-34s %8zu %12.0f %-18s %12.0f %8.2f\n", what, b->size, median(ours, samples), beside,
            median(floors, samples), median(ratios, samples));
}

/* The floor of a message: two processors that hand a line to each other. */
struct hand_off {
    _Alignas(64) _Atomic uint64_t ping;
    _Alignas(64) _Atomic uint64_t pong;
};

static struct hand_off *hand;

static void floor_hand_off(struct bench *b)
{
    (void)b;
    uint64_t turn = atomic_load(&hand->ping) + 1;
    atomic_store_explicit(&hand->ping, turn, memory_order_release);
    while (atomic_load_explicit(&hand->pong, memory_order_acquire) != turn)
        continue;
}

static pid_t start_hand_off(void)
{
    hand = mmap(NULL, sizeof(*hand), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    pid_t pid = fork();
    if (pid == 0) {
        pin(1);
        for (uint64_t turn = 1;; ++turn) {
            while (atomic_load_explicit(&hand->ping, memory_order_acquire) != turn)
                continue;
            atomic_store_explicit(&hand->pong, turn, memory_order_release);
        }
    }
    return pid;
}

static const size_t sizes[] = {8, 4096, 65536, 1 << 20};

static void measure_memory(
        const char *kind, uint8_t *memory, void (*floor_operation)(struct bench *), const char *floor_name)
{
    static const struct server_plan asleep = {.prepare = pin_second, .size = memory_size};
    struct remote r;
    start_server(&r, &asleep, memory);
    meet_server(&r);
    struct bench b = {.r = &r, .own = calloc(1, memory_size)};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); ++i) {
        char name[64];
        b.size = sizes[i];
        snprintf(name, sizeof(name), "WRITE, %s", kind);
        compare(name, do_write, floor_name, floor_operation, &b);
        snprintf(name, sizeof(name), "WRITE + READ 8, %s", kind);
        compare(name, do_write_and_flush, floor_name, floor_operation, &b);
        snprintf(name, sizeof(name), "READ, %s", kind);
        compare(name, do_read, floor_name, floor_operation, &b);
    }
    free(b.own);
    stop_server(&r);
}

static void measure_private(void)
{
    measure_memory("private memory", NULL, floor_process_vm, "process_vm_writev");
}

static void measure_mapped(void)
{
    int fd = memfd_create("speed", MFD_CLOEXEC);
    assert_int_equal(ftruncate(fd, memory_size), 0);
    uint8_t *memory = mmap(NULL, memory_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    measure_memory("shared file", memory, floor_memcpy, "memcpy");
    close(fd);
}

static void measure_messages(void)
{
    static const struct server_plan polls = {
            .prepare = pin_second, .size = memory_size, .receives = 8, .act = answer_messages};
    struct remote r;
    start_server(&r, &polls, NULL);
    meet_server(&r);
    struct bench b = {.r = &r, .own = calloc(1, memory_size), .size = 8};
    pid_t partner = start_hand_off();
    kill(r.pid, SIGSTOP);
    double floor_ns = time_of(floor_hand_off, &b) / 2;
    kill(partner, SIGKILL);
    waitpid(partner, NULL, 0);
    kill(r.pid, SIGCONT);
    const size_t lengths[] = {8, 64};
    for (size_t i = 0; i < 2; ++i) {
        b.size = lengths[i];
        double values[samples];
        for (unsigned n = 0; n < samples; ++n)
            values[n] = time_of(do_message, &b) / 2;
        const double ours = median(values, samples);
        printf("%-34s %8zu %12.0f %-18s %12.0f %8.2f\n", "SEND, one way, both poll", b.size, ours, "line hand-off",
                floor_ns, ours / floor_ns);
    }
    free(b.own);
    stop_server(&r);
}

int main(void)
{
    setenv("SOFTRDMA_PATH", "auto", 0); /* the default, for the heading */
    pin(0);
    printf("path: %s; medians of %d; times in ns\n", getenv("SOFTRDMA_PATH"), samples);
    printf("%-34s %8s %12s %-18s %12s %8s\n", "operation", "bytes", "softrdma", "floor", "floor", "ratio");
    fflush(stdout);
    in_own_process(measure_private);
    in_own_process(measure_mapped);
    in_own_process(measure_messages);
    return 0;
}
