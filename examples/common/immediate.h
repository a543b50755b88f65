// SPDX-License-Identifier: BSD-3-Clause
#ifndef EXAMPLES_IMMEDIATE_H
#define EXAMPLES_IMMEDIATE_H 1

#include <stdint.h>

#include <librpma.h>

#include "arguments.h"

/* The 32 bits of immediate data of 10 and 11, in the byte order of the machine. */

#define IMMEDIATE_HELP "  <imm>            the immediate data, 0 to 4294967295\n"

/* Parses operand 0. Exits if it is invalid. */
uint32_t immediate_parse(const struct arguments *args);

/*
 * Waits for the completion of an operation and of a message with immediate data. op_context is the name of the
 * operation. `opcode` distinguishes an incoming send from a write. Returns a status.
 */
int immediate_wait(const struct arguments *args, struct rpma_conn *conn, const char *op_context,
        enum ibv_wc_opcode opcode, struct ibv_wc *wc, uint32_t *imm);

#endif /* EXAMPLES_IMMEDIATE_H */
