// SPDX-License-Identifier: BSD-3-Clause
#ifndef EXAMPLES_RECORDS_H
#define EXAMPLES_RECORDS_H 1

/*
 * The log in the server's memory: a header, then records of 64 bytes. Record number n, counted from 0, starts with the
 * uint64_t n; its text follows. Only the records that the header counts are valid; a record after them can be
 * incomplete.
 */
enum {
    LOG_SIGNATURE_OFFSET = 0,
    LOG_COUNT_OFFSET = 8, /* uint64_t: records that are complete; changes by an atomic write only */
    LOG_GOAL_OFFSET = 16, /* uint64_t: records that the client is about to have written in the end */
    LOG_RECORDS_OFFSET = 64,
    LOG_RECORD_SIZE = 64,
    LOG_TEXT_OFFSET = 8,
    LOG_CAPACITY = 1000,
    LOG_SIZE = LOG_RECORDS_OFFSET + LOG_CAPACITY * LOG_RECORD_SIZE
};

#endif /* EXAMPLES_RECORDS_H */
