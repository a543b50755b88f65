/* SPDX-License-Identifier: BSD-3-Clause */
/* Creates a pool on a target, fills it, reads it back and compares, opens it again, and removes it. */
#include <librpmem.h>

#include <err.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "../common/output.h"

#define POOL_SIZE ((size_t)4 * 1024 * 1024)
#define HEADER_SIZE ((size_t)4096)
#define DATA_SIZE (POOL_SIZE - HEADER_SIZE)

static void *new_memory(void)
{
    void *const memory = mmap(NULL, POOL_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        err(1, "mmap");
    return memory;
}

static void require(int done)
{
    if (!done)
        errx(1, "%s", rpmem_errormsg());
}

int main(int argc, char **argv)
{
    check_output_at_exit();
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    if (argc != 3)
        errx(2, "usage: basic TARGET SET");
    char *const memory = new_memory();
    for (size_t i = HEADER_SIZE; i < POOL_SIZE; ++i)
        memory[i] = (char)(i * 7 + i / 4096);
    const struct rpmem_pool_attr attributes = {.signature = "BASIC", .major = 1};
    unsigned lanes = 1;
    RPMEMpool *pool = rpmem_create(argv[1], argv[2], memory, POOL_SIZE, &lanes, &attributes);
    require(pool != NULL);
    require(rpmem_persist(pool, HEADER_SIZE, DATA_SIZE, 0, 0) == 0);
    require(rpmem_close(pool) == 0);

    /* Like another program with empty memory: reads attributes and data from the target. */
    char *const copy = new_memory();
    struct rpmem_pool_attr found;
    lanes = 1;
    pool = rpmem_open(argv[1], argv[2], copy, POOL_SIZE, &lanes, &found);
    require(pool != NULL);
    require(rpmem_read(pool, copy + HEADER_SIZE, HEADER_SIZE, DATA_SIZE, 0) == 0);
    require(rpmem_close(pool) == 0);
    if (memcmp(found.signature, attributes.signature, sizeof(found.signature)) != 0 || found.major != attributes.major)
        errx(1, "the attributes of the pool are not those that it was created with");
    if (memcmp(memory + HEADER_SIZE, copy + HEADER_SIZE, DATA_SIZE) != 0)
        errx(1, "the replica differs from the persisted data");
    require(rpmem_remove(argv[1], argv[2], 0) == 0);
    printf("%zu bytes persisted, read back and equal; the pool is removed\n", DATA_SIZE);
    return 0;
}
