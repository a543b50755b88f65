/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DEVICE_TIMING_H
#define DEVICE_TIMING_H

#include <stdbool.h>
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

/* Two whose batches take turns, so that a machine that becomes slower does so for both. */
struct both {
    double one; /* nanoseconds of one operation */
    double other;
    bool disturbed;
};

/* Learns how fast the processors are if they are left alone. To be called before anything is measured. */
void know_processors(void);

/* Of all pairs of short batches the one with the median ratio. A processor that shares its core with another one, of
 * this or of another virtual machine, is slower while that works: at computing, not at waiting, so that ratios change
 * as well. Such pairs are left out as long as the patience of the process lasts, 2 s; then the result is `disturbed`.
 * Not of large operations, whose batches are one call: those wait for memory. */
struct both time_in_turns(const struct contender *one, const struct contender *other, size_t bytes);

/* The same of one alone: `one`. */
double time_of(const struct contender *c, size_t bytes);

#endif
