/* SPDX-License-Identifier: BSD-3-Clause */
#include "timing.h"

#include <sched.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum {
    batches = 201,
    batch_of_small = 20,
    small = 65536,
    batches_of_large = 41,
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

static int by_value(const void *a, const void *b)
{
    const double difference = *(const double *)a - *(const double *)b;
    return difference < 0 ? -1 : difference > 0;
}

double time_of(void (*call)(void *), void *argument, size_t bytes, unsigned per_call)
{
    double values[batches];
    const unsigned calls = bytes * per_call >= small ? 1 : batch_of_small;
    const unsigned count = bytes * per_call > small ? batches_of_large : batches;
    call(argument);
    for (unsigned i = 0; i < count; ++i) {
        const double start = now_ns();
        for (unsigned n = 0; n < calls; ++n)
            call(argument);
        values[i] = (now_ns() - start) / calls / per_call;
    }
    qsort(values, count, sizeof(*values), by_value);
    return values[count / 2];
}
