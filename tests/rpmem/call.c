/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * usage: call remove|remove-all|hold TARGET SET: removes a pool, and its set, too, through librpmem; or makes one, says
 * `open`, holds it until a line or the end of standard input comes, and says how closing it ended.
 */
#define _GNU_SOURCE
#include <err.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <librpmem.h>

enum {
    POOL_SIZE = 8 << 20
};

static int hold(const char *target, const char *set)
{
    const struct rpmem_pool_attr attributes = {.signature = "HELD"};
    void *const memory = mmap(NULL, POOL_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    unsigned lanes = 2;
    RPMEMpool *const pool = rpmem_create(target, set, memory, POOL_SIZE, &lanes, &attributes);
    if (pool == NULL || rpmem_persist(pool, 4096, 64, 1, 0) != 0)
        errx(1, "%s", rpmem_errormsg());
    puts("open");
    fflush(stdout);
    (void)getchar();
    const int closed = rpmem_close(pool);
    printf("closed: %d, %s\n", closed, closed == 0 ? "" : strerrorname_np(errno));
    return 0;
}

int main(int argc, char **argv)
{
    if (argc != 4)
        errx(2, "usage: call remove|remove-all|hold TARGET SET");
    if (strcmp(argv[1], "hold") == 0)
        return hold(argv[2], argv[3]);
    const int flags = strcmp(argv[1], "remove-all") == 0 ? RPMEM_REMOVE_POOL_SET : 0;
    if (rpmem_remove(argv[2], argv[3], flags) != 0)
        errx(1, "%s", rpmem_errormsg());
    return 0;
}
