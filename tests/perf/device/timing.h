/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DEVICE_TIMING_H
#define DEVICE_TIMING_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Sizes that each measurement transfers, and their offset into memory of memory_size. */
static const size_t sizes[] = {8, 4096, 65536, 1 << 20};
enum {
    size_count = sizeof(sizes) / sizeof(*sizes),
    memory_size = 4 << 20,
    offset = 4096,
};

/* Binds this process to a processor; the second of a machine that has one only is the first. */
void pin(long cpu);

/* Measured candidate: a call that does `per_call` operations of `bytes`. */
struct contender {
    void (*call)(void *);
    void *argument;
    unsigned per_call;
    pid_t partner; /* a process that polls on the second processor, and is stopped in the other's turns; 0 if none */
};

/* Two whose batches take turns, so that a machine that becomes slower does so for both. */
struct both {
    double one; /* nanoseconds of one operation */
    double other;
    bool disturbed;
};

/* Measures the speed of the processors without other load. Call it before any measurement. */
void know_processors(void);

/* Returns, of all pairs of short batches, the one with the median ratio. A processor that shares its core with another
 * one, of this or of another virtual machine, is slower while that works: at computing, not at waiting, so that ratios
 * change as well. Such pairs are omitted until the limit of the process, 2 s, is exceeded; then the result is
 * `disturbed`. Large operations, whose batches are one call, are not checked: they wait for memory. */
struct both time_in_turns(const struct contender *one, const struct contender *other, size_t bytes);

/* Like time_in_turns(), but for one candidate alone. */
double time_of(const struct contender *c, size_t bytes);

#endif
