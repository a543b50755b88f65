// SPDX-License-Identifier: BSD-3-Clause
#include "memory.h"

#include <err.h>

#include "status.h"

int memory_map_file(struct memory *memory, const char *path, int fd)
{
    (void)memory;
    (void)fd;
    warnx("%s: cannot map: built without libpmem2 (install libpmem2-dev and build again)", path);
    return STATUS_FAILED;
}

void memory_unmap_file(struct memory *memory)
{
    (void)memory;
}
