// SPDX-License-Identifier: BSD-3-Clause
#include "options.h"

#include <errno.h>
#include <fnmatch.h>
#include <getopt.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char help[] =
        "Usage: rpma-conformance [OPTION]...\n"
        "Tests the librpma.so.0 that the dynamic linker finds (see LD_LIBRARY_PATH) on the RDMA device that "
        "serves\n"
        "an address of this machine.\n"
        "\n"
        "  -l, --list             print the names of the cases and end\n"
        "  -f, --filter PATTERN   run only the cases whose name matches the shell pattern; may be repeated\n"
        "  -F, --format FORMAT    text (default), tap or junit, on standard output\n"
        "  -a, --addr ADDRESS     numeric address of the device (default: 127.0.0.1)\n"
        "  -d, --deviations FILE  cases known to fail, one per line (name, tab, reason); a case that is listed and "
        "passes\n"
        "                         fails the run; or the name of an installed list: librpma-1.2.0, librpma-1.3.0\n"
        "  -t, --timeout SECONDS  time limit of a case (default: 20)\n"
        "  -h, --help             print this text\n"
        "  -V, --version          print the version of librpma of which this suite is a part\n"
        "\n"
        "Exit code: 0 the library conforms, 1 it does not, 2 wrong usage, 77 no device serves the address.\n"
        "Environment: RPMA_TEST_QUICK_UNREACHABLE, set if the device takes seconds, not minutes, to give up "
        "on\n"
        "a server that does not answer.\n";

void usage_error(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    fputs("rpma-conformance: ", stderr);
    vfprintf(stderr, format, arguments);
    fputs(" (see rpma-conformance --help)\n", stderr);
    va_end(arguments);
    exit(EXIT_USAGE);
}

void *allocated(void *memory)
{
    if (memory)
        return memory;
    fputs("rpma-conformance: out of memory\n", stderr);
    exit(EXIT_FAILURE);
}

static enum format parse_format(const char *text)
{
    if (!strcmp(text, "text"))
        return FORMAT_TEXT;
    if (!strcmp(text, "tap"))
        return FORMAT_TAP;
    if (!strcmp(text, "junit"))
        return FORMAT_JUNIT;
    usage_error("unknown format '%s'", text);
}

static int parse_seconds(const char *text)
{
    char *end = NULL;
    errno = 0;
    long value = strtol(text, &end, 10);
    if (errno || end == text || *end || value < 1 || value > 3600)
        usage_error("'%s' is not a number of seconds from 1 to 3600", text);
    return (int)value;
}

static const char *parse_addr(const char *text)
{
    const struct addrinfo numeric = {.ai_flags = AI_NUMERICHOST};
    struct addrinfo *found;
    if (getaddrinfo(text, NULL, &numeric, &found))
        usage_error("'%s' is not a numeric address, such as 192.168.0.1 or fd00::1", text);
    freeaddrinfo(found);
    return text;
}

static void add_filter(struct options *options, const char *pattern)
{
    if (options->filter_count == MAX_FILTERS)
        usage_error("more than %d filters", MAX_FILTERS);
    options->filters[options->filter_count++] = pattern;
}

int finish_output(int status)
{
    bool lost = ferror(stdout) != 0;
    errno = EIO; /* fflush can succeed after an earlier write failed */
    if (fflush(stdout) == 0 && !lost)
        return status;
    fprintf(stderr, "rpma-conformance: standard output: %s\n", strerror(errno));
    return EXIT_FAILURE;
}

static void show_text(const char *text)
{
    fputs(text, stdout);
    exit(finish_output(EXIT_SUCCESS));
}

struct options parse_options(int argc, char **argv)
{
    static const struct option known[] = {
            {"list", no_argument, NULL, 'l'},
            {"filter", required_argument, NULL, 'f'},
            {"format", required_argument, NULL, 'F'},
            {"addr", required_argument, NULL, 'a'},
            {"deviations", required_argument, NULL, 'd'},
            {"timeout", required_argument, NULL, 't'},
            {"help", no_argument, NULL, 'h'},
            {"version", no_argument, NULL, 'V'},
            {NULL, 0, NULL, 0},
    };
    struct options options = {.addr = "127.0.0.1", .time_limit_s = 20};
    opterr = 0;
    for (int c; (c = getopt_long(argc, argv, ":lf:F:a:d:t:hV", known, NULL)) != -1;) {
        switch (c) {
        case 'l':
            options.list = true;
            break;
        case 'f':
            add_filter(&options, optarg);
            break;
        case 'F':
            options.format = parse_format(optarg);
            break;
        case 'a':
            options.addr = parse_addr(optarg);
            break;
        case 'd':
            options.deviations = optarg;
            break;
        case 't':
            options.time_limit_s = parse_seconds(optarg);
            break;
        case 'h':
            show_text(help);
            break;
        case 'V':
            show_text("rpma-conformance " CONFORMANCE_VERSION "\n");
            break;
        case ':':
            usage_error("'%s' needs a value", argv[optind - 1]);
        default:
            usage_error("unknown option '%s'", argv[optind - 1]);
        }
    }
    if (optind < argc)
        usage_error("unexpected argument '%s'", argv[optind]);
    return options;
}

bool selected(const struct options *options, const char *full_name)
{
    for (size_t i = 0; i < options->filter_count; ++i) {
        if (!fnmatch(options->filters[i], full_name, 0))
            return true;
    }
    return options->filter_count == 0;
}
