// SPDX-License-Identifier: BSD-3-Clause
#ifndef EXAMPLES_MEMORY_H
#define EXAMPLES_MEMORY_H 1

#include <stdbool.h>
#include <stddef.h>

/*
 * Memory that a program opens to its peer: anonymous memory, or a whole file or PMem device mapped by libpmem2. In a
 * file, a signature of 17 bytes precedes the user data and marks it as initialized.
 */
struct memory {
    char *base;
    size_t size;
    size_t data_offset; /* offset of the user data */
    bool is_new;        /* the user data was never initialized */
    bool is_persistent; /* whether memory_persist() makes data survive a power failure */

    struct pmem2_map *map;                             /* NULL for anonymous memory */
    void (*persist)(const void *address, size_t size); /* CPU cache flushes or msync, depending on the mapping */
};

/* Zeroed anonymous memory, page-aligned. Returns a status. */
int memory_allocate(struct memory *memory, size_t size);

/*
 * Maps the file or device at path, with the signature at offset and data_size bytes of user data behind it. A NULL path
 * allocates data_size bytes of anonymous memory instead. Prints on stderr how durable the data is. Returns a status.
 */
int memory_open(struct memory *memory, const char *path, size_t offset, size_t data_size);

/* Like memory_open, but for data without a signature that starts at offset; does not return is_new. */
int memory_open_unsigned(struct memory *memory, const char *path, size_t offset, size_t data_size);

/* Makes the first size bytes of the initialized user data persistent, and then stores the signature. */
void memory_sign(struct memory *memory, size_t size);

/* Make the first size bytes of the user data, or size bytes at any offset, persistent. No effect on DRAM. */
void memory_persist(const struct memory *memory, size_t size);
void memory_persist_range(const struct memory *memory, size_t offset, size_t size);

/* Unmaps the memory; does nothing if it was never opened (all members zero). */
void memory_close(struct memory *memory);

/*
 * The two operations that need libpmem2. memory_map_file fills in all members except data_offset and is_new, and prints
 * an error on stderr.
 */
int memory_map_file(struct memory *memory, const char *path, int fd);
void memory_unmap_file(struct memory *memory);

#endif /* EXAMPLES_MEMORY_H */
