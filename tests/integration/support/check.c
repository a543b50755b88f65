// SPDX-License-Identifier: BSD-3-Clause
#include "check.h"
#include "registered_tests.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static check_handler *failure_handler;
static void *failure_argument;

void check_handle(check_handler *handler, void *argument)
{
    failure_handler = handler;
    failure_argument = argument;
}

void check_failed(const char *file, int line, const char *format, ...)
{
    char message[640];
    int used = snprintf(message, sizeof(message), "%s:%d: ", file, line);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(message + used, sizeof(message) - (size_t)used, format, arguments);
    va_end(arguments);

    if (failure_handler)
        failure_handler(failure_argument, message);
    print_error("%s\n", message);
    _fail(file, line);
    abort();
}

void check_equal(const char *file, int line, const char *text, long long actual, long long expected)
{
    if (actual != expected)
        check_failed(file, line, "%s is %lld, expected %lld", text, actual, expected);
}

void check_rpma(const char *file, int line, const char *text, int actual, int expected)
{
    if (actual != expected)
        check_failed(file, line, "%s: %s, expected %s (errno: %s)", text, rpma_err_2str(actual),
                rpma_err_2str(expected), strerror(errno));
}
