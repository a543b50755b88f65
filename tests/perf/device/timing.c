/* SPDX-License-Identifier: BSD-3-Clause */
#include "timing.h"

#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
    batches = 101,
    batch_of_small = 1000,
    small = 65536,
};

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

static double time_of_batch(const struct contender *c, unsigned calls)
{
    go_on(c);
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
    const size_t most = bytes * (one->per_call > other->per_call ? one->per_call : other->per_call);
    const unsigned calls = most >= small ? 1 : batch_of_small;
    stand_still(one);
    if (other != one)
        stand_still(other);
    for (unsigned i = 0; i < batches; ++i) {
        pairs[i].one = time_of_batch(one, calls);
        pairs[i].other = one == other ? 1 : time_of_batch(other, calls);
    }
    go_on(one);
    go_on(other);
    qsort(pairs, batches, sizeof(*pairs), by_ratio);
    return pairs[batches / 2];
}

double time_of(const struct contender *c, size_t bytes)
{
    return time_in_turns(c, c, bytes).one;
}
