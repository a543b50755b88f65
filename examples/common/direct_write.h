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
 * Direct write to PMem: whether what a client writes to a server's memory is persistent as soon as it is visible. The
 * operator of the server sets it on the command line, the server sends it to the client, and the client flushes
 * accordingly.
 */
#define DIRECT_WRITE_HELP                                                                                              \
    "  on|off           whether what a client writes to <pmem-path> is persistent once it is visible: direct write "   \
    "to\n"                                                                                                             \
    "                   PMem on hardware, always on softrdma; off (default): this server persists it at the end\n"

/* Operand number index, on or off (default). Ends the program as arguments_parse does. */
bool direct_write_parse(const struct arguments *args, int index);

/* The usage to register a server's memory for so that clients may write to it and flush. Warns of a doubtful claim. */
int direct_write_usage(const struct memory *memory, bool direct_write);

/* Describes mr, with the user data at data_offset, and the claim. Returns a status. */
int direct_write_describe(
        bool direct_write, const struct rpma_mr_local *mr, size_t data_offset, struct handshake *handshake);

/*
 * For the client: makes conn know pcfg, which may be NULL, and chooses the strongest flush that the server supports. A
 * server that sent no peer configuration supports visibility only. Returns a status.
 */
int direct_write_choose_flush(struct rpma_conn *conn, const struct rpma_peer_cfg *pcfg, enum rpma_flush_type *type);

#endif /* EXAMPLES_DIRECT_WRITE_H */
