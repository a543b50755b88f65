// SPDX-License-Identifier: BSD-3-Clause
#ifndef EXAMPLES_DIRECT_WRITE_H
#define EXAMPLES_DIRECT_WRITE_H 1

#include <stdbool.h>
#include <stddef.h>

#include <librpma.h>

#include "arguments.h"
#include "handshake.h"
#include "memory.h"

/*
 * Direct write to PMem: whether data written by a client is persistent as soon as it is visible. The operator sets it
 * on the server's command line, the server sends it to the client, and the client selects its flush accordingly.
 */
#define DIRECT_WRITE_HELP                                                                                              \
    "  on|off           whether what a client writes to <pmem-path> is persistent once it is visible: direct write "   \
    "to\n"                                                                                                             \
    "                   PMem on hardware, always on softrdma; off (default): this server persists it at the end\n"

/* Parses an operand, on or off (default). Exits if it is invalid. */
bool direct_write_parse(const struct arguments *args, int index);

/* Returns the usage for registering a server's memory for writes and flushes. Warns if direct write is implausible. */
int direct_write_usage(const struct memory *memory, bool direct_write);

/* Describes mr, with user data at data_offset, and direct write. Returns a status. */
int direct_write_describe(
        bool direct_write, const struct rpma_mr_local *mr, size_t data_offset, struct handshake *handshake);

/*
 * Client: selects the strongest flush that the server supports, and prints it. Without a peer configuration (pcfg is
 * NULL) that is visibility. Returns a status.
 */
int direct_write_flush_type(const struct rpma_peer_cfg *pcfg, enum rpma_flush_type *type);

#endif /* EXAMPLES_DIRECT_WRITE_H */
