// SPDX-License-Identifier: BSD-3-Clause
#ifndef EXAMPLES_COMMON_H
#define EXAMPLES_COMMON_H 1

/*
 * What examples 01 to 05 need besides RDMA: the command line, time limits, messages for what goes wrong first, and the
 * bytes that describe memory to the other side. It brings the code as well as the declarations, so that each program is
 * one call of the compiler:
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
