// SPDX-License-Identifier: BSD-3-Clause
#ifndef LOG_LAYOUT_H
#define LOG_LAYOUT_H 1

/*
 * The log of 07, at the start of the server's memory, 1040 bytes:
 *   0   signature, "LOG" and zeros, in a file only
 *   8   u64 in the byte order of the machine: offset of the next byte from the start of the log
 *   16  data
 * An aligned 8-byte number changes atomically: a reader sees the old or the new length, even after a power failure.
 */
enum {
    LOG_USED_OFFSET = 8,
    LOG_USED_SIZE = 8,
    LOG_DATA_OFFSET = 16,
    LOG_SIZE = 1040
};

#endif /* LOG_LAYOUT_H */
