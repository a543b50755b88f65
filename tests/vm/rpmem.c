// SPDX-License-Identifier: BSD-3-Clause
/*
 * Records in remote replicas, whose target loses power.
 *   append TARGET SET SET       appends records to both sets in turn, and prints each pair that is durable
 *   check PART PART COUNT       checks that the parts of the two sets contain the first COUNT records
 * Each record fills a page.
 */
#include <librpmem.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define PAGE ((size_t)4096)
#define SIZE ((size_t)8 * 1024 * 1024) /* used size of each set */
#define WORDS (PAGE / sizeof(uint64_t))

static void give_up(const char *call, const char *reason)
{
    fprintf(stderr, "%s: %s\n", call, reason);
    exit(1);
}

static uint64_t word_of(uint64_t record, uint64_t word)
{
    return (record + 1) << 16 | word;
}

static size_t offset_of(uint64_t record)
{
    return record / 2 * PAGE;
}

static void *map(int fd, size_t size, int protection, int flags)
{
    void *const memory = mmap(NULL, size, protection, flags, fd, 0);
    if (memory == MAP_FAILED)
        give_up("mmap", strerror(errno));
    return memory;
}

struct replica {
    RPMEMpool *pool;
    uint64_t *memory;
};

static struct replica create(const char *target, const char *set)
{
    struct replica created = {.memory = map(-1, SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS)};
    unsigned lanes = 1;
    created.pool = rpmem_create(target, set, created.memory, SIZE, &lanes, NULL);
    if (created.pool == NULL)
        give_up("rpmem_create", rpmem_errormsg());
    return created;
}

static void put(const struct replica *to, uint64_t record)
{
    for (uint64_t i = 0; i < WORDS; ++i)
        to->memory[offset_of(record) / sizeof(uint64_t) + i] = word_of(record, i);
    if (rpmem_persist(to->pool, offset_of(record), PAGE, 0, 0) != 0)
        give_up("rpmem_persist", rpmem_errormsg());
}

static void append(const char *target, char **sets)
{
    const struct replica replicas[2] = {create(target, sets[0]), create(target, sets[1])};
    for (uint64_t record = 0; offset_of(record) < SIZE; record += 2) {
        put(&replicas[0], record);
        put(&replicas[1], record + 1);
        printf("acknowledged %llu\n", (unsigned long long)record + 2);
    }
    for (int i = 0; i < 2; ++i)
        if (rpmem_close(replicas[i].pool) != 0)
            give_up("rpmem_close", rpmem_errormsg());
}

static void check(char **paths, uint64_t acknowledged)
{
    const uint64_t *parts[2];
    for (int i = 0; i < 2; ++i) {
        const int fd = open(paths[i], O_RDONLY | O_CLOEXEC);
        if (fd < 0)
            give_up(paths[i], strerror(errno));
        parts[i] = map(fd, SIZE, PROT_READ, MAP_SHARED);
    }
    for (uint64_t record = 0; record < acknowledged; ++record)
        for (uint64_t i = 0; i < WORDS; ++i)
            if (parts[record % 2][offset_of(record) / sizeof(uint64_t) + i] != word_of(record, i)) {
                fprintf(stderr, "word %llu of record %llu in %s is lost; %llu records were acknowledged\n",
                        (unsigned long long)i, (unsigned long long)record, paths[record % 2],
                        (unsigned long long)acknowledged);
                exit(1);
            }
    printf("%llu records acknowledged, all are in the parts\n", (unsigned long long)acknowledged);
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc == 5 && !strcmp(argv[1], "append")) {
        append(argv[2], argv + 3);
    } else if (argc == 5 && !strcmp(argv[1], "check")) {
        check(argv + 2, strtoull(argv[4], NULL, 10));
    } else {
        fprintf(stderr, "usage: %s append TARGET SET SET | check PART PART COUNT\n", argv[0]);
        return 2;
    }
    return 0;
}
