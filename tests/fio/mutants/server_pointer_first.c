// SPDX-License-Identifier: BSD-3-Clause
/* mode=sw, wrong: the pointer becomes durable before the data, by the time that a slow disk takes. */
#include <unistd.h>

#include "memory.h"

enum {
    SLOW_US = 1000
};

static void persist_later(const struct memory *memory, size_t offset, size_t size)
{
    static size_t data_offset;
    static size_t data_size;
    if (offset + size != memory->size) {
        data_offset = offset;
        data_size = size;
        return;
    }
    memory_persist(memory, offset, size);
    (void)usleep(SLOW_US);
    memory_persist(memory, data_offset, data_size);
}

#define memory_persist persist_later
#include "aof_server.c"
