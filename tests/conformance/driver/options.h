// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <stdbool.h>
#include <stddef.h>

#define EXIT_USAGE 2
#define EXIT_CANNOT_RUN 77
#define MAX_FILTERS 64

enum format {
    FORMAT_TEXT,
    FORMAT_TAP,
    FORMAT_JUNIT
};

struct options {
    bool list;
    enum format format;
    const char *addr;
    const char *deviations;
    int time_limit_s;
    const char *filters[MAX_FILTERS];
    size_t filter_count;
};

/* Exits the program for --help and for invalid arguments. */
struct options parse_options(int argc, char **argv);

/* Prints the cause in one line and exits the program. */
_Noreturn void usage_error(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Returns the memory. If it is NULL, reports that memory is exhausted and exits the program. */
void *allocated(void *memory);

/* Returns `status`. If output was lost, for example on a full disk, prints the reason and returns EXIT_FAILURE. */
int finish_output(int status);

/* Returns whether the filters select the case. Without filters, every case is selected. */
bool selected(const struct options *options, const char *full_name);
