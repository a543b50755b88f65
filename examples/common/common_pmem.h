// SPDX-License-Identifier: BSD-3-Clause
#ifndef EXAMPLES_COMMON_PMEM_H
#define EXAMPLES_COMMON_PMEM_H 1

/*
 * Additional helpers of examples 03 to 05: the text that they transfer, in a file, in persistent memory or in DRAM.
 * libpmem2 maps files:
 *
 *     cc client.c -o client $(pkg-config --cflags --libs librpma libpmem2)
 *
 * Without its header, or with -DEXAMPLES_WITHOUT_PMEM2, the programs use DRAM only.
 */
#include "common.h"

#include "direct_write.c"
#include "hello.c"
#include "memory.c"
#if __has_include(<libpmem2.h>) && !defined(EXAMPLES_WITHOUT_PMEM2)
#include "memory_file.c"
#else
#include "memory_no_file.c"
#endif

#endif /* EXAMPLES_COMMON_PMEM_H */
