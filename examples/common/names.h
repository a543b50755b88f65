// SPDX-License-Identifier: BSD-3-Clause
#ifndef EXAMPLES_NAMES_H
#define EXAMPLES_NAMES_H 1

#include <librpma.h>

#include "arguments.h"

/* What 06 and 06scch have in common: a server that reads the name of every client from the client's memory. */
enum {
    NAME_SIZE = 32, /* zeros behind the name included */
    NAMES_TIMEOUT_S = 15
};

#define NAME_OPERANDS "<seed>"
#define NAME_OPERANDS_HELP "  <seed>           number that chooses this client's name\n"

/* The name that operand 0 chooses. Ends the program as arguments_parse does. */
const char *name_parse(const struct arguments *args);

/* One side each, from its registration to the end of the connections. Return a status. */
int name_offer(const struct arguments *args, const char *name, struct rpma_peer *peer);
int names_collect(const struct arguments *args, struct rpma_peer *peer, const struct rpma_conn_cfg *cfg);

#endif /* EXAMPLES_NAMES_H */
