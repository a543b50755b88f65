// SPDX-License-Identifier: BSD-3-Clause
#ifndef EXAMPLES_NAMES_H
#define EXAMPLES_NAMES_H 1

#include "variant.h"

/*
 * Code of 06 and 06scch: a server that reads the name of each client from the client's memory. The functions get the
 * configuration of the server's connections, and return an exit status.
 */
int names_client(int argc, char **argv);
int names_server(int argc, char **argv, configure_conn *configure);

#endif /* EXAMPLES_NAMES_H */
