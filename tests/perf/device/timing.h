/* SPDX-License-Identifier: BSD-3-Clause */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/* Sizes of each measurement, and offset of the transfers in memory of `memory_size` bytes. */
static const size_t sizes[] = {8, 4096, 65536, 1 << 20};
enum {
    size_count = sizeof(sizes) / sizeof(*sizes),
    memory_size = 4 << 20,
    offset = 4096,
};

/* Binds this process to a processor. A machine with one processor uses that one for all processes. */
void pin(long cpu);

/* Candidate of a measurement: a call that performs `per_call` operations of `bytes` bytes. */
struct contender {
    void (*call)(void *);
    void *argument;
    unsigned per_call;
    pid_t partner; /* process that polls on the second processor and is stopped in the turns of the other candidate, or
                      0 */
};

/* Results of two candidates whose batches take turns, so that a slowdown of the machine affects both. */
struct both {
    double one; /* nanoseconds of one operation */
    double other;
    bool disturbed;
};

/* Measures the speed of the idle processors. Call before any measurement. */
void know_processors(void);

/* Returns the pair of batches with the median ratio. Load on a sibling hyperthread, possibly of another virtual
 * machine, slows down computing but not waiting, so it changes ratios. Such pairs are dropped, for at most 2 s per
 * process; later results are `disturbed`. Large operations wait for memory and are not checked. */
struct both time_in_turns(const struct contender *one, const struct contender *other, size_t bytes);

/* Like time_in_turns(), but for one candidate. */
double time_of(const struct contender *c, size_t bytes);

enum {
    threads = 4
};

/* Prints a line for `threads` candidates, each in a thread of its own on any processor: bytes, the nanoseconds of one
 * operation of all, and the operations of the slowest thread for each operation of the fastest. */
void show_threads(const struct contender *each, size_t bytes);
