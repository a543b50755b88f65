// SPDX-License-Identifier: BSD-3-Clause
#ifndef EXAMPLES_REGION_H
#define EXAMPLES_REGION_H 1

#include <stddef.h>

#include <librpma.h>

#include "memory.h"

/* Registers size bytes at base with the RPMA_MR_USAGE_* in `usage`. Returns a status. */
int register_range(struct rpma_peer *peer, void *base, size_t size, int usage, struct rpma_mr_local **mr);

/* Registers all of `memory` with the RPMA_MR_USAGE_* in `usage`. Returns a status. */
int register_memory(struct rpma_peer *peer, const struct memory *memory, int usage, struct rpma_mr_local **mr);

#endif /* EXAMPLES_REGION_H */
