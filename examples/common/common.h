// SPDX-License-Identifier: BSD-3-Clause
#ifndef EXAMPLES_COMMON_H
#define EXAMPLES_COMMON_H 1

/*
 * Helpers of examples 01 to 05: command line, time limits, messages for common errors, and the layout of private data.
 * Includes the code, so that one compiler command builds each program:
 *
 *     cc client.c -o client $(pkg-config --cflags --libs librpma)
 *
 * All functions return a status: 0, or the exit status after an error line on stderr.
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
