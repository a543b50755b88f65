// SPDX-License-Identifier: BSD-3-Clause
#ifndef EXAMPLES_COMMON_H
#define EXAMPLES_COMMON_H 1

/*
 * Helpers of examples 01 to 05 besides RDMA: the command line, time limits, messages for the most frequent errors, and
 * the description of memory for the peer. It brings the code as well as the declarations, so that each program is one
 * call of the compiler:
 *
 *     cc client.c -o client $(pkg-config --cflags --libs librpma)
 *
 * All functions return a status: 0, or what the program exits with after a line on stderr.
 */
#define _GNU_SOURCE

#include "arguments.c"
#include "completion.c"
#include "connection.c"
#include "events.c"
#include "explain.c"
#include "handshake.c"
#include "status.c"
#include "text.c"
#include "wait.c"

#endif /* EXAMPLES_COMMON_H */
