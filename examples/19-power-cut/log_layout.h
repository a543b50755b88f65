// SPDX-License-Identifier: BSD-3-Clause
#ifndef LOG_LAYOUT_H
#define LOG_LAYOUT_H 1

#include <stddef.h>
#include <stdint.h>

/*
 * The log of 19, at the start of the server's file:
 *   0   u64: number of records
 *   64  records of 192 bytes: a number, then 23 words computed from it
 * Numbers are in the byte order of the machine. A record fills three cache lines, so a power failure can keep one part
 * of it and lose another.
 */
enum {
    LOG_COUNT_OFFSET = 0,
    LOG_COUNT_SIZE = 8,
    LOG_RECORDS_OFFSET = 64,
    RECORD_WORDS = 24,
    RECORD_SIZE = RECORD_WORDS * 8,
    LOG_CAPACITY = 300,
    LOG_SIZE = LOG_RECORDS_OFFSET + LOG_CAPACITY * RECORD_SIZE
};

static inline uint64_t record_word(uint64_t number, unsigned index)
{
    return index == 0 ? number : (number + 1) * 0x9e3779b97f4a7c15U + index;
}

static inline size_t record_offset(uint64_t number)
{
    return LOG_RECORDS_OFFSET + (size_t)number * RECORD_SIZE;
}

#endif /* LOG_LAYOUT_H */
