/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * usage: call remove|remove-all|hold|unreadable TARGET SET
 * remove: removes a pool through librpmem; remove-all: also removes its set. hold: creates a pool, prints `open`, sets
 * other attributes for each line `attributes` and closes the pool at another line or the end of standard input, and
 * prints the results. unreadable: creates a pool of memory whose end cannot be read, and prints the error of each call.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <librpmem.h>

enum {
    POOL_SIZE = 8 << 20
};

static void print_result(const char *call, int result)
{
    printf("%s: %d, %s\n", call, result, result == 0 ? "" : strerrorname_np(errno));
    fflush(stdout);
}

static int hold(const char *target, const char *set)
{
    struct rpmem_pool_attr attributes = {.signature = "HELD"};
    void *const memory = mmap(NULL, POOL_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned lanes = 2;
    RPMEMpool *const pool = rpmem_create(target, set, memory, POOL_SIZE, &lanes, &attributes);
    if (pool == NULL || rpmem_persist(pool, 4096, 64, 1, 0) != 0)
        errx(1, "%s", rpmem_errormsg());
    puts("open");
    fflush(stdout);
    for (char line[16]; fgets(line, sizeof(line), stdin) != NULL && strcmp(line, "attributes\n") == 0;) {
        ++attributes.user_flags[0];
        print_result("attributes", rpmem_set_attr(pool, &attributes));
    }
    print_result("closed", rpmem_close(pool));
    return 0;
}

static const char *error_of(int result)
{
    return result == 0 ? "0" : strerrorname_np(errno);
}

/* A file that is shorter than its mapping. With injected faults, the file has its full length. */
static int write_unreadable(const char *target, const char *set)
{
    const struct rpmem_pool_attr attributes = {.signature = "SHORT"};
    const int file = memfd_create("memory", MFD_CLOEXEC);
    if (file < 0 || ftruncate(file, getenv("SOFTRDMA_FAULT") == NULL ? POOL_SIZE / 2 : POOL_SIZE) != 0)
        err(1, "memory");
    void *const memory = mmap(NULL, POOL_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    unsigned lanes = 2;
    RPMEMpool *const pool = rpmem_create(target, set, memory, POOL_SIZE, &lanes, &attributes);
    if (pool == NULL)
        errx(1, "%s", rpmem_errormsg());
    printf("%s", error_of(rpmem_persist(pool, 4096, 64, 0, 0)));
    printf(" %s", error_of(rpmem_persist(pool, POOL_SIZE - 64, 64, 0, 0)));
    printf(" %s", error_of(rpmem_persist(pool, 4096, 64, 1, 0)));
    printf(" %s", error_of(rpmem_close(pool)));
    printf(" %s\n", rpmem_errormsg());
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        errx(2, "usage: call remove|remove-all|hold|unreadable TARGET SET");
    if (strcmp(argv[1], "hold") == 0)
        return hold(argv[2], argv[3]);
    if (strcmp(argv[1], "unreadable") == 0)
        return write_unreadable(argv[2], argv[3]);
    const int flags = strcmp(argv[1], "remove-all") == 0 ? RPMEM_REMOVE_POOL_SET : 0;
    if (rpmem_remove(argv[2], argv[3], flags) != 0)
        errx(1, "%s", rpmem_errormsg());
    return 0;
}
