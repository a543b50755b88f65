// SPDX-License-Identifier: BSD-3-Clause
#include "memory.h"

#include <err.h>

#include "status.h"

int memory_map_file(struct memory *memory, const char *path, int fd)
{
    (void)memory;
    (void)fd;
    warnx("%s cannot be mapped: this program was built without libpmem2; install libpmem2-dev and build it again",
            path);
    return STATUS_FAILED;
}

void memory_unmap_file(struct memory *memory)
{
    (void)memory;
}
