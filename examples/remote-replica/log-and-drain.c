/* SPDX-License-Identifier: BSD-3-Clause */
/* Appends N records to a log on a target. Flushes each record, drains once, and then persists the number of records, so
 * that a log contains only complete records after a failure. */
#include <librpmem.h>

#include <err.h>
#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "../common/output.h"

#define POOL_SIZE ((size_t)4 * 1024 * 1024)
#define HEADER_SIZE ((size_t)4096)
#define RECORD_SIZE ((size_t)64)

struct record {
    uint64_t number;
    char text[RECORD_SIZE - sizeof(uint64_t)];
};

struct log {
    uint64_t count;
    char unused[RECORD_SIZE - sizeof(uint64_t)];
    struct record records[];
};

static const size_t capacity = (POOL_SIZE - HEADER_SIZE - sizeof(struct log)) / RECORD_SIZE;

static void require(int done)
{
    if (!done)
        errx(1, "%s", rpmem_errormsg());
}

static RPMEMpool *open_pool(const char *target, const char *set, void *memory)
{
    const struct rpmem_pool_attr attributes = {.signature = "LOG"};
    unsigned lanes = 1;
    RPMEMpool *pool = rpmem_create(target, set, memory, POOL_SIZE, &lanes, &attributes);
    if (pool == NULL && errno == EEXIST)
        pool = rpmem_open(target, set, memory, POOL_SIZE, &lanes, NULL);
    require(pool != NULL);
    return pool;
}

static void append(RPMEMpool *pool, char *memory, uint64_t more)
{
    struct log *const log = (struct log *)(memory + HEADER_SIZE);
    for (uint64_t i = log->count; i < log->count + more; ++i) {
        log->records[i].number = i;
        snprintf(log->records[i].text, sizeof(log->records[i].text), "record %" PRIu64, i);
        const size_t offset = (size_t)((char *)&log->records[i] - memory);
        require(rpmem_flush(pool, offset, RECORD_SIZE, 0, RPMEM_FLUSH_RELAXED) == 0);
    }
    require(rpmem_drain(pool, 0, 0) == 0);
    log->count += more;
    require(rpmem_persist(pool, HEADER_SIZE, sizeof(log->count), 0, 0) == 0);
}

int main(int argc, char **argv)
{
    check_output_at_exit();
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc != 4)
        errx(2, "usage: log-and-drain TARGET SET N");
    char *const memory = mmap(NULL, POOL_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        err(1, "mmap");
    RPMEMpool *const pool = open_pool(argv[1], argv[2], memory);
    require(rpmem_read(pool, memory + HEADER_SIZE, HEADER_SIZE, POOL_SIZE - HEADER_SIZE, 0) == 0);
    const struct log *const log = (const struct log *)(memory + HEADER_SIZE);
    for (uint64_t i = 0; i < log->count; ++i)
        if (log->count > capacity || log->records[i].number != i)
            errx(1, "the log at the target is damaged at record %" PRIu64, i);
    const uint64_t more = strtoull(argv[3], NULL, 10);
    if (more > capacity - log->count)
        errx(1, "log full: at most %" PRIu64 " more records", (uint64_t)(capacity - log->count));
    append(pool, memory, more);
    printf("records: %" PRIu64 "\n", log->count);
    if (rpmem_close(pool) != 0)
        errx(1, "%s", rpmem_errormsg());
    return 0;
}
