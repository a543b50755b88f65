/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef DEVICE_TIMING_H
#define DEVICE_TIMING_H

#include <stddef.h>

/* Binds this process to a processor; the second of a machine that has one only is the first. */
void pin(long cpu);

/* Nanoseconds of one call, which does `per_call` operations: the median of short batches, most of which nothing else on
 * the machine interrupts. */
double time_of(void (*call)(void *), void *argument, size_t bytes, unsigned per_call);

#endif
