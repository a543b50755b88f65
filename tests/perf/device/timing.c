/* SPDX-License-Identifier: BSD-3-Clause */
#include "timing.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    batches = 101,
    batch_of_small = 1000,
    warm_up_of_small = 512, /* one per connection that takes turns */
    small = 65536,
    processors = 2,
    probes = 21,
};

static const double slowed = 1.1; /* ratio to the minimum time of the processor */
static double patience_ns = 2e9;
static double best_ns[processors];

void pin(long cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)(cpu % sysconf(_SC_NPROCESSORS_ONLN)), &set);
    sched_setaffinity(0, sizeof(set), &set);
}

static double now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

static int by_ratio(const void *a, const void *b)
{
    const struct both *x = a;
    const struct both *y = b;
    const double difference = x->one * y->other - y->one * x->other;
    return difference < 0 ? -1 : difference > 0;
}

static int by_size(const void *a, const void *b)
{
    const double difference = *(const double *)a - *(const double *)b;
    return difference < 0 ? -1 : difference > 0;
}

static void go_on(const struct contender *c)
{
    if (c->partner != 0)
        kill(c->partner, SIGCONT);
}

static void stand_still(const struct contender *c)
{
    if (c->partner == 0)
        return;
    kill(c->partner, SIGSTOP);
    waitpid(c->partner, NULL, WUNTRACED);
}

static double time_of_work(void)
{
    const double start = now_ns();
    unsigned a = 0;
    unsigned b = 0;
    unsigned c = 0;
    unsigned d = 0;
    for (unsigned n = 0; n < 20000; ++n) { /* enough independent instructions to use the processor fully */
        a += n;
        b ^= n;
        c -= n;
        d |= n;
        __asm__ volatile("" : "+r"(a), "+r"(b), "+r"(c), "+r"(d));
    }
    return now_ns() - start;
}

struct probe {
    long cpu;
    atomic_uint *waiting; /* number of processors that wait */
    double ns;
};

/* Measures this processor while the other processors do the same work. */
static void *time_one(void *probe)
{
    struct probe *p = probe;
    double ns[probes];
    pin(p->cpu);
    for (atomic_fetch_sub(p->waiting, 1); atomic_load(p->waiting) > 0;)
        continue;
    for (unsigned i = 0; i < probes; ++i)
        ns[i] = time_of_work();
    qsort(ns, probes, sizeof(*ns), by_size);
    p->ns = ns[probes / 2];
    return NULL;
}

static bool is_slowed_down(void)
{
    struct probe probe[processors];
    pthread_t thread[processors];
    atomic_uint waiting = processors;
    bool any = false;
    for (long cpu = 0; cpu < processors; ++cpu) {
        probe[cpu] = (struct probe){.cpu = cpu, .waiting = &waiting};
        if (pthread_create(&thread[cpu], NULL, time_one, &probe[cpu]) != 0)
            abort();
    }
    for (long cpu = 0; cpu < processors; ++cpu) {
        pthread_join(thread[cpu], NULL);
        if (best_ns[cpu] == 0 || probe[cpu].ns < best_ns[cpu])
            best_ns[cpu] = probe[cpu].ns;
        any = any || probe[cpu].ns > slowed * best_ns[cpu];
    }
    return any;
}

void know_processors(void)
{
    const double start = now_ns();
    while (now_ns() - start < 1e9)
        is_slowed_down();
}

static double time_of_batch(const struct contender *c, unsigned calls)
{
    const unsigned warm_up = calls > 1 ? warm_up_of_small : 1;
    go_on(c);
    for (unsigned n = 0; n < warm_up; ++n) /* the other candidate has evicted this one's data from the caches */
        c->call(c->argument);
    const double start = now_ns();
    for (unsigned n = 0; n < calls; ++n)
        c->call(c->argument);
    const double ns = (now_ns() - start) / calls / c->per_call;
    stand_still(c);
    return ns;
}

struct both time_in_turns(const struct contender *one, const struct contender *other, size_t bytes)
{
    struct both pairs[batches];
    const size_t max_bytes = bytes * (one->per_call > other->per_call ? one->per_call : other->per_call);
    const unsigned calls = max_bytes >= small ? 1 : batch_of_small;
    bool disturbed = false;
    stand_still(one);
    if (other != one)
        stand_still(other);
    for (unsigned i = 0; i < batches;) {
        const double start = now_ns();
        pairs[i].one = time_of_batch(one, calls);
        pairs[i].other = one == other ? 1 : time_of_batch(other, calls);
        const bool slow = calls > 1 && is_slowed_down(); /* a long operation would need a warm-up after each check */
        if (slow && patience_ns > 0) {
            patience_ns -= now_ns() - start;
            continue;
        }
        disturbed = disturbed || slow;
        ++i;
    }
    go_on(one);
    go_on(other);
    qsort(pairs, batches, sizeof(*pairs), by_ratio);
    pairs[batches / 2].disturbed = disturbed;
    return pairs[batches / 2];
}

double time_of(const struct contender *c, size_t bytes)
{
    return time_in_turns(c, c, bytes).one;
}

struct runner {
    const struct contender *contender;
    pthread_t thread;
    unsigned long calls;
};

static _Atomic bool running;

static void *run_until_stopped(void *runner)
{
    struct runner *r = runner;
    cpu_set_t all;
    memset(&all, 0xff, sizeof(all));
    sched_setaffinity(0, sizeof(all), &all);
    r->contender->call(r->contender->argument); /* not measured: first operation */
    while (!running)
        sched_yield();
    for (; running; ++r->calls)
        r->contender->call(r->contender->argument);
    return NULL;
}

void show_threads(const struct contender *each, size_t bytes)
{
    const struct timespec duration = {1, 0};
    struct runner runners[threads];
    unsigned long total = 0;
    unsigned long fastest = 0;
    unsigned long slowest = ULONG_MAX;
    for (size_t i = 0; i < threads; ++i) {
        runners[i] = (struct runner){.contender = &each[i]};
        if (pthread_create(&runners[i].thread, NULL, run_until_stopped, &runners[i]) != 0)
            exit(1);
    }
    const double start = now_ns();
    running = true;
    nanosleep(&duration, NULL);
    running = false;
    const double elapsed = now_ns() - start;
    for (size_t i = 0; i < threads; ++i) {
        pthread_join(runners[i].thread, NULL);
        total += runners[i].calls;
        fastest = fastest < runners[i].calls ? runners[i].calls : fastest;
        slowest = slowest > runners[i].calls ? runners[i].calls : slowest;
    }
    printf("%zu\t%.1f\t%.3f\n", bytes, elapsed / (double)total, (double)slowest / (double)fastest);
}
