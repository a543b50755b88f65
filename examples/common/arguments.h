// SPDX-License-Identifier: BSD-3-Clause
#ifndef EXAMPLES_ARGUMENTS_H
#define EXAMPLES_ARGUMENTS_H 1

#include <stdbool.h>
#include <stdint.h>

/* Part of the command line that differs between programs. */
struct program {
    const char *purpose;       /* one sentence for --help */
    const char *operands;      /* operands after <addr> <port>, for the usage line; may be "" */
    const char *operands_help; /* one line for each operand */
    int min_operands;          /* number of required operands */
    int max_operands;
    int timeout_s;         /* default of --timeout */
    int retry_s;           /* default of --retry; RETRY_NOT_OFFERED for a server, which has --ready-fd instead */
    bool has_many_clients; /* a server with --clients */
};

enum {
    RETRY_NOT_OFFERED = -1
};

struct arguments {
    const char *addr;
    const char *port;
    char **operands; /* operands after the port */
    int operand_count;
    int timeout_s;    /* maximum wait for the peer in one step; 0 means no limit */
    int retry_s;      /* duration of retries while no server accepts */
    int client_count; /* number of clients to serve; 0 means no limit */
    int ready_fd;     /* descriptor for the line "ready", or -1 */
};

/* Parses the command line. Exits with 0 for --help, and with STATUS_USAGE for an invalid command line. */
struct arguments arguments_parse(int argc, char **argv, const struct program *program);

/* Returns an operand, or NULL if the command line has fewer operands. */
const char *arguments_operand(const struct arguments *args, int index);

/* Returns an operand as a decimal number, or `fallback` without it. Exits if it is invalid. */
uint64_t arguments_number(const struct arguments *args, int index, const char *name, uint64_t fallback);

/* Prints the error of the command line and exits with STATUS_USAGE. */
void usage_error(const char *format, ...) __attribute__((noreturn, format(printf, 1, 2)));

#endif /* EXAMPLES_ARGUMENTS_H */
