// SPDX-License-Identifier: BSD-3-Clause
#include "arguments.h"

#include <ctype.h>
#include <err.h>
#include <errno.h>
#include <fcntl.h>
#include <getopt.h>
#include <inttypes.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <librpma.h>

#include "output.h"
#include "status.h"

enum {
    MAX_WAIT_S = 86400,
    MAX_OPTIONS = 8
};

void usage_error(const char *format, ...)
{
    char cause[256];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(cause, sizeof(cause), format, arguments);
    va_end(arguments);
    warnx("%s (see --help)", cause);
    exit(STATUS_USAGE);
}

static bool is_server(const struct program *program)
{
    return program->retry_s == RETRY_NOT_OFFERED;
}

static void print_help(const struct program *program)
{
    const bool is_a_server = is_server(program);

    printf("Usage: %s [options] <addr> <port>%s%s\n\n%s\n\n", is_a_server ? "server" : "client",
            *program->operands ? " " : "", program->operands, program->purpose);
    printf("  <addr>           %s\n",
            is_a_server ? "address of the RDMA interface to listen on" : "address the server listens on");
    printf("  <port>           number or name of the port\n%s\n", program->operands_help);
    printf("Options:\n"
           "  --timeout S      maximum wait for the peer in each step, in seconds; 0: no limit (default %d)\n",
            program->timeout_s);
    if (is_a_server)
        printf("  --ready-fd N     write \"ready\" to file descriptor N once clients can connect, then close it\n");
    else
        printf("  --retry S        keep trying for S seconds while no server accepts (default %d)\n", program->retry_s);
    if (program->has_many_clients)
        printf("  --clients N      stop listening once N clients have come\n");
    printf("  --verbose        let librpma log to stderr\n"
           "  --help           print this help and exit\n\n"
           "Exit status: 0 every step succeeded, 1 failure, 2 wrong command line, 77 no RDMA device.\n"
           "Without RDMA hardware put `softrdma run --` in front of the command, on both sides.\n");
}

static uint64_t parse_number(const char *text, const char *name, uint64_t max)
{
    char *end = NULL;
    errno = 0;
    const unsigned long long value = strtoull(text, &end, 10);
    if (!isdigit((unsigned char)*text) || *end != '\0')
        usage_error("%s: '%s' is not a decimal number", name, text);
    if (errno != 0 || value > max)
        usage_error("%s: %s exceeds %" PRIu64, name, text, max);
    return value;
}

/* Called before any file is opened that could get the number. */
static int parse_open_fd(const char *text)
{
    const int fd = (int)parse_number(text, "--ready-fd", INT32_MAX);
    if (fcntl(fd, F_GETFD) < 0)
        usage_error("--ready-fd: descriptor %d is not open", fd);
    return fd;
}

/* The resolver uses only the low 16 bits of a number, so 70000 would mean port 4464. */
static void check_port(const char *port)
{
    if (isdigit((unsigned char)*port) && parse_number(port, "<port>", UINT16_MAX) == 0)
        usage_error("<port>: 0 is invalid (1 to %d)", UINT16_MAX);
}

static void check_addr(const char *addr)
{
    if (*addr == '[')
        usage_error("<addr>: '%s' has brackets (omit them from an IPv6 address)", addr);
}

/* Rejects unknown hosts and services before a device is opened. */
static void check_names(const char *addr, const char *port)
{
    const struct addrinfo wanted = {.ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    const int error = getaddrinfo(addr, port, &wanted, &found);
    if (error == 0)
        freeaddrinfo(found);
    else if (error == EAI_SERVICE)
        usage_error("<port>: '%s' is neither a port nor a service of /etc/services", port);
    else
        usage_error("<addr>: cannot find the host '%s': %s", addr, gai_strerror(error));
}

static void check_operands(const struct arguments *args, const struct program *program)
{
    if (args->operand_count < program->min_operands)
        usage_error("expected <addr> <port> %s", program->operands);

    for (int i = program->max_operands; i < args->operand_count; ++i)
        warnx("surplus operand '%s' ignored", args->operands[i]);
}

static void log_verbosely(void)
{
    (void)rpma_log_set_threshold(RPMA_LOG_THRESHOLD, RPMA_LOG_LEVEL_INFO);
    (void)rpma_log_set_threshold(RPMA_LOG_THRESHOLD_AUX, RPMA_LOG_LEVEL_INFO);
}

/* Options of the program, and a terminator. */
static void list_options(const struct program *program, struct option *options)
{
    static const struct option all[] = {{"help", no_argument, NULL, 'h'}, {"timeout", required_argument, NULL, 't'},
            {"verbose", no_argument, NULL, 'v'}, {"ready-fd", required_argument, NULL, 'f'},
            {"clients", required_argument, NULL, 'c'}, {"retry", required_argument, NULL, 'r'}};

    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); ++i) {
        const bool is_missing = (all[i].val == 'f' && !is_server(program)) ||
                                (all[i].val == 'r' && is_server(program)) ||
                                (all[i].val == 'c' && !program->has_many_clients);
        if (!is_missing)
            *options++ = all[i];
    }
    *options = (struct option){0};
}

struct arguments arguments_parse(int argc, char **argv, const struct program *program)
{
    /* Keeps the order of lines on standard output and standard error, also in a pipe. */
    (void)setvbuf(stdout, NULL, _IOLBF, 0);
    struct option options[MAX_OPTIONS];
    struct arguments args = {.timeout_s = program->timeout_s, .retry_s = program->retry_s, .ready_fd = -1};

    check_output_at_exit();
    list_options(program, options);

    int option;
    while ((option = getopt_long(argc, argv, "h", options, NULL)) != -1) {
        switch (option) {
        case 'h':
            print_help(program);
            exit(STATUS_OK);
        case 't':
            args.timeout_s = (int)parse_number(optarg, "--timeout", MAX_WAIT_S);
            break;
        case 'r':
            args.retry_s = (int)parse_number(optarg, "--retry", MAX_WAIT_S);
            break;
        case 'c':
            args.client_count = (int)parse_number(optarg, "--clients", INT32_MAX);
            break;
        case 'f':
            args.ready_fd = parse_open_fd(optarg);
            break;
        case 'v':
            log_verbosely();
            break;
        default: /* getopt_long has printed the error */
            exit(STATUS_USAGE);
        }
    }

    if (argc - optind < 2)
        usage_error("expected <addr> <port> %s", program->operands);
    args.addr = argv[optind];
    args.port = argv[optind + 1];
    args.operands = argv + optind + 2;
    args.operand_count = argc - optind - 2;
    check_addr(args.addr);
    check_port(args.port);
    check_names(args.addr, args.port);
    check_operands(&args, program);
    return args;
}

const char *arguments_operand(const struct arguments *args, int index)
{
    return index < args->operand_count ? args->operands[index] : NULL;
}

uint64_t arguments_number(const struct arguments *args, int index, const char *name, uint64_t fallback)
{
    const char *text = arguments_operand(args, index);
    return text ? parse_number(text, name, UINT64_MAX) : fallback;
}
