// SPDX-License-Identifier: BSD-3-Clause
#ifndef EXAMPLES_RECORDS_H
#define EXAMPLES_RECORDS_H 1

/*
 * The log in the server's memory: a header, then records of 64 bytes. Record n (from 0) starts with n (uint64_t),
 * followed by its text. Only the records that the header counts are valid; the next record may be incomplete.
 */
enum {
    LOG_SIGNATURE_OFFSET = 0,
    LOG_COUNT_OFFSET = 8, /* uint64_t: number of complete records; changed only by atomic writes */
    LOG_GOAL_OFFSET = 16, /* uint64_t: number of records that the client will write */
    LOG_RECORDS_OFFSET = 64,
    LOG_RECORD_SIZE = 64,
    LOG_TEXT_OFFSET = 8,
    LOG_CAPACITY = 1000,
    LOG_SIZE = LOG_RECORDS_OFFSET + LOG_CAPACITY * LOG_RECORD_SIZE
};

#endif /* EXAMPLES_RECORDS_H */
