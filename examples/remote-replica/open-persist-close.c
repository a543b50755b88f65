/* SPDX-License-Identifier: BSD-3-Clause */
/* Opens or creates a pool on a target, makes all of it durable there, and closes it. */
#include <librpmem.h>

#include <err.h>
#include <errno.h>
#include <stdio.h>
#include <sys/mman.h>

#include "../common/output.h"

#define POOL_SIZE ((size_t)32 * 1024 * 1024)
#define HEADER_SIZE ((size_t)4096)
#define LANES 4u

int main(int argc, char **argv)
{
    check_output_at_exit();
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc != 3)
        errx(2, "usage: open-persist-close TARGET SET");
    void *const memory = mmap(NULL, POOL_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        err(1, "mmap");
    /* the target has written the header, which is the first page */
    const struct rpmem_pool_attr attributes = {.signature = "MANPAGE"};
    unsigned lanes = LANES;
    RPMEMpool *pool = rpmem_create(argv[1], argv[2], memory, POOL_SIZE, &lanes, &attributes);
    if (pool == NULL && errno == EEXIST)
        pool = rpmem_open(argv[1], argv[2], memory, POOL_SIZE, &lanes, NULL);
    if (pool == NULL)
        errx(1, "%s", rpmem_errormsg());
    if (rpmem_persist(pool, HEADER_SIZE, POOL_SIZE - HEADER_SIZE, 0, 0) != 0)
        errx(1, "%s", rpmem_errormsg());
    if (rpmem_close(pool) != 0)
        errx(1, "%s", rpmem_errormsg());
    printf("persisted %zu bytes, %u lanes\n", POOL_SIZE - HEADER_SIZE, lanes);
    return 0;
}
