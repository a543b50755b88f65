/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * usage: log_in_pool POOLSET N [REPORT]: a program that uses libpmemobj. Checks the records in the pool, appends N
 * records, each in a transaction, and prints how many records were ever appended. A list keeps the newest ones. When a
 * transaction is committed, its number is written to the file REPORT, so that it is known even if the program is
 * killed.
 */
#include <libpmemobj.h>

#include <err.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>

enum {
    KEPT = 1000
};

struct record {
    uint64_t number;
    uint64_t mark;
    PMEMoid next;
};

struct log {
    uint64_t count;
    PMEMoid oldest;
    PMEMoid newest;
};

static uint64_t mark_of(uint64_t number)
{
    return number * UINT64_C(0x9e3779b97f4a7c15) ^ UINT64_C(0x6c6f67);
}

static void check(const struct log *log)
{
    const uint64_t kept = log->count < KEPT ? log->count : KEPT;
    uint64_t expected = log->count - kept + 1;
    PMEMoid at = log->oldest;
    for (; !OID_IS_NULL(at); ++expected) {
        const struct record *const record = pmemobj_direct(at);
        if (record->number != expected || record->mark != mark_of(expected))
            errx(3, "record %" PRIu64 " is damaged: it contains %" PRIu64, expected, record->number);
        at = record->next;
    }
    if (expected != log->count + 1)
        errx(3, "the log has records up to %" PRIu64 ", and counts %" PRIu64, expected - 1, log->count);
}

static void append(PMEMobjpool *pool, PMEMoid root)
{
    struct log *const log = pmemobj_direct(root);
    TX_BEGIN(pool)
    {
        pmemobj_tx_add_range(root, 0, sizeof(*log));
        const PMEMoid added = pmemobj_tx_alloc(sizeof(struct record), 1);
        struct record *const record = pmemobj_direct(added);
        *record = (struct record){.number = log->count + 1, .mark = mark_of(log->count + 1), .next = OID_NULL};
        if (OID_IS_NULL(log->newest)) {
            log->oldest = added;
        } else {
            pmemobj_tx_add_range(log->newest, offsetof(struct record, next), sizeof(PMEMoid));
            ((struct record *)pmemobj_direct(log->newest))->next = added;
        }
        log->newest = added;
        if (++log->count > KEPT) {
            const PMEMoid last = log->oldest;
            log->oldest = ((struct record *)pmemobj_direct(last))->next;
            pmemobj_tx_free(last);
        }
    }
    TX_ONABORT
    {
        errx(1, "a transaction was aborted: %s", pmemobj_errormsg());
    }
    TX_END
}

int main(int argc, char **argv)
{
    if (argc < 3)
        errx(2, "usage: log_in_pool POOLSET N [REPORT]");
    volatile uint64_t unread = 0, *report = &unread;
    if (argc > 3) {
        const int fd = open(argv[3], O_RDWR);
        void *const mapped = mmap(NULL, sizeof(*report), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (mapped == MAP_FAILED)
            err(1, "%s", argv[3]);
        report = mapped;
    }
    PMEMobjpool *pool = pmemobj_open(argv[1], "log");
    if (pool == NULL)
        pool = pmemobj_create(argv[1], "log", 0, 0600);
    if (pool == NULL)
        errx(1, "pmemobj_create: %s", pmemobj_errormsg());
    const PMEMoid root = pmemobj_root(pool, sizeof(struct log));
    const struct log *const log = pmemobj_direct(root);
    check(log);
    for (long left = strtol(argv[2], NULL, 10); left > 0; --left) {
        append(pool, root);
        *report = log->count;
    }
    printf("%" PRIu64 "\n", log->count);
    pmemobj_close(pool);
    return 0;
}
