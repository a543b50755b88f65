// SPDX-License-Identifier: BSD-3-Clause
#ifndef EXAMPLES_ARGUMENTS_H
#define EXAMPLES_ARGUMENTS_H 1

#include <stdbool.h>
#include <stdint.h>

/* The part of the command line that differs between programs. */
struct program {
    const char *purpose;       /* one sentence for --help */
    const char *operands;      /* what follows <addr> <port>, for the usage line; "" for nothing */
    const char *operands_help; /* a line for each of them */
    int min_operands;          /* how many of them cannot be left out */
    int max_operands;
    int timeout_s;         /* default of --timeout */
    int retry_s;           /* default of --retry, or RETRY_NOT_OFFERED for a server, which has --ready-fd instead */
    bool has_many_clients; /* a server with --clients */
};

enum {
    RETRY_NOT_OFFERED = -1
};

struct arguments {
    const char *addr;
    const char *port;
    char **operands; /* what follows the port */
    int operand_count;
    int timeout_s;    /* longest wait for the peer in any one step, 0: no limit */
    int retry_s;      /* how long to retry a connection that nobody accepts */
    int client_count; /* how many clients to serve, 0: as many as come */
    int ready_fd;     /* where to announce that the server listens, or -1 */
};

/* Never fails: --help ends the program with 0 and a wrong command line with STATUS_USAGE. */
struct arguments arguments_parse(int argc, char **argv, const struct program *program);

/* Operand number index, or NULL if the command line ends before it. */
const char *arguments_operand(const struct arguments *args, int index);

/* Operand number index as a decimal number, or fallback without it. Ends the program as arguments_parse does. */
uint64_t arguments_number(const struct arguments *args, int index, const char *name, uint64_t fallback);

/* Prints the error of the command line and exits with STATUS_USAGE. */
void usage_error(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

#endif /* EXAMPLES_ARGUMENTS_H */
