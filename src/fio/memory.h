// SPDX-License-Identifier: BSD-3-Clause
#ifndef RPMA_FIO_MEMORY_H
#define RPMA_FIO_MEMORY_H 1

#include <stdbool.h>
#include <stddef.h>

struct thread_data;

/* The workspace of a server's thread: DRAM, part of a PMem device, or a file. */
struct memory {
    char *base;
    size_t size;
    bool is_pmem; /* a device or a file, on which clients flush to persistence */
    bool is_file;
    void *mapping;                                     /* the base for DRAM, otherwise a struct pmem2_map */
    void (*persist)(const void *address, size_t size); /* NULL for DRAM */
};

/* filename=malloc means DRAM, a character device is a PMem device of which each thread uses its part, any other name is
 * a file that is created or extended if necessary. Returns 0 or a negative errno, which it has reported. */
int memory_open(struct thread_data *td, const char *name, size_t size, struct memory *memory);

/* Makes a range of the memory durable. Does nothing for DRAM. */
void memory_persist(const struct memory *memory, size_t offset, size_t size);

/* Does nothing for memory that was never opened (all members zero). */
void memory_close(struct memory *memory);

#endif /* RPMA_FIO_MEMORY_H */
