/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DEVICE_TIMING_H
#define DEVICE_TIMING_H

#include <stddef.h>

/* What everybody moves, and where: so far into memory of that size. */
static const size_t sizes[] = {8, 4096, 65536, 1 << 20};
enum {
    size_count = sizeof(sizes) / sizeof(*sizes),
    memory_size = 4 << 20,
    offset = 4096,
};

/* Binds this process to a processor; the second of a machine that has one only is the first. */
void pin(long cpu);

/* Nanoseconds of one call, which does `per_call` operations: the median of short batches, most of which nothing else on
 * the machine interrupts. */
double time_of(void (*call)(void *), void *argument, size_t bytes, unsigned per_call);

#endif
