// SPDX-License-Identifier: BSD-3-Clause
#ifndef EXAMPLES_BLOCKS_H
#define EXAMPLES_BLOCKS_H 1

/* The server's memory is an array of blocks. Each starts with its number (uint64_t, from 1). */
enum {
    BLOCK_SIZE = 64,
    BLOCK_COUNT = 1024,
    BLOCKS_SIZE = BLOCK_SIZE * BLOCK_COUNT
};

#endif /* EXAMPLES_BLOCKS_H */
