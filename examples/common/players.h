// SPDX-License-Identifier: BSD-3-Clause
#ifndef EXAMPLES_PLAYERS_H
#define EXAMPLES_PLAYERS_H 1

#include <librpma.h>

#include "arguments.h"

/*
 * The client of 16 and 17: several simultaneous games of ping_pong.h, each with its own connection and thread. Returns
 * the exit status.
 */
int players_main(int argc, char **argv);

/* Operand of the server. */
#define PLAYERS_SERVER_OPERANDS "[<players>]"
#define PLAYERS_SERVER_HELP "  <players>        connections to serve before the end, 1 to 10 (default 4)\n"

/* Parses the number of players. Exits if it is invalid. */
int players_parse(const struct arguments *args, int index);

#endif /* EXAMPLES_PLAYERS_H */
