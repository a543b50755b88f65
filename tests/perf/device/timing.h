/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DEVICE_TIMING_H
#define DEVICE_TIMING_H

#include <stddef.h>
#include <sys/types.h>

/* What everybody moves, and where: so far into memory of that size. */
static const size_t sizes[] = {8, 4096, 65536, 1 << 20};
enum {
    size_count = sizeof(sizes) / sizeof(*sizes),
    memory_size = 4 << 20,
    offset = 4096,
};

/* Binds this process to a processor; the second of a machine that has one only is the first. */
void pin(long cpu);

/* What is measured: a call that does `per_call` operations of `bytes`. */
struct contender {
    void (*call)(void *);
    void *argument;
    unsigned per_call;
    pid_t partner; /* a process that polls on the second processor, and stands still in the other's turns; 0: none */
};

/* Nanoseconds of one operation: the median of short batches, most of which nothing else on the machine interrupts. */
double time_of(const struct contender *c, size_t bytes);

/* The same of two whose batches take turns, so that a machine that becomes slower does so for both: of all pairs of
 * batches the one with the median ratio. */
struct both {
    double one;
    double other;
};
struct both time_in_turns(const struct contender *one, const struct contender *other, size_t bytes);

#endif
