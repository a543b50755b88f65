// SPDX-License-Identifier: BSD-3-Clause
#include "check.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define EXIT_SKIPPED 77

static const char *name_of(int result)
{
    static const char *const names[] = {"UNKNOWN", "NOSUPP", "PROVIDER", "NOMEM", "INVAL", "NO_COMPLETION", "NO_EVENT",
            "AGAIN", "SHARED_CHANNEL", "NOT_SHARED_CHNL"};
    int index = RPMA_E_UNKNOWN - result;
    if (result == 0)
        return "success";
    return index >= 0 && index < (int)(sizeof(names) / sizeof(*names)) ? names[index] : "no result of librpma";
}

void check_rpma(int actual, int expected, const char *call, const char *file, int line)
{
    int error = errno;
    if (actual == expected)
        return;
    print_error("%s gives %s%s%s%s, not %s\n", call, name_of(actual), actual == RPMA_E_PROVIDER ? " (" : "",
            actual == RPMA_E_PROVIDER ? strerror(error) : "", actual == RPMA_E_PROVIDER ? ")" : "", name_of(expected));
    _fail(file, line);
}

void check_errno(int expected, const char *file, int line)
{
    int error = errno;
    if (error == expected)
        return;
    print_error("errno is %d (%s), not %d (%s)\n", error, strerror(error), expected, strerror(expected));
    _fail(file, line);
}

void *since_1_4(const char *name)
{
    void *function = dlsym(RTLD_DEFAULT, name);
    if (function == NULL)
        skip_because("the library lacks %s: it is older than 1.4", name);
    return function;
}

void skip_because(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vfprintf(stderr, format, arguments);
    va_end(arguments);
    fflush(stderr);
    _exit(EXIT_SKIPPED);
}
