// SPDX-License-Identifier: BSD-3-Clause
#ifndef EXAMPLES_MEMORY_H
#define EXAMPLES_MEMORY_H 1

#include <stdbool.h>
#include <stddef.h>

/*
 * Memory that a program registers for its peer: anonymous memory, or a file or PMem device mapped by libpmem2. In a
 * file, a signature of 17 bytes precedes the user data and marks it as initialized.
 */
struct memory {
    char *base;
    size_t size;
    size_t data_offset; /* offset of the user data */
    bool is_new;        /* the user data is not initialized */
    bool is_persistent; /* whether memory_persist() makes data durable */

    struct pmem2_map *map;                             /* NULL for anonymous memory */
    void (*persist)(const void *address, size_t size); /* CPU cache flushes or msync, depending on the mapping */
};

/* Allocates zeroed, page-aligned memory. Returns a status. */
int memory_allocate(struct memory *memory, size_t size);

/*
 * Maps the file or device at `path`, with a signature at `offset`, followed by data_size bytes of user data. A NULL
 * path allocates anonymous memory instead. Prints on stderr how durable the data is. Returns a status.
 */
int memory_open(struct memory *memory, const char *path, size_t offset, size_t data_size);

/* Like memory_open(), for data without a signature at `offset`. Does not set is_new. */
int memory_open_unsigned(struct memory *memory, const char *path, size_t offset, size_t data_size);

/* Makes the first `size` bytes of user data persistent, then stores the signature. */
void memory_sign(struct memory *memory, size_t size);

/* Make user data persistent: the first `size` bytes, or a range. No effect on DRAM. */
void memory_persist(const struct memory *memory, size_t size);
void memory_persist_range(const struct memory *memory, size_t offset, size_t size);

/* Unmaps the memory. Does nothing if it was never opened (all members zero). */
void memory_close(struct memory *memory);

/*
 * Functions that need libpmem2. memory_map_file() sets all members except data_offset and is_new, and prints errors on
 * stderr.
 */
int memory_map_file(struct memory *memory, const char *path, int fd);
void memory_unmap_file(struct memory *memory);

#endif /* EXAMPLES_MEMORY_H */
