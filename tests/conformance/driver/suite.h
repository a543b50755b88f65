// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <stddef.h>

/* A case runs in a process of its own. It need not release its objects, and may crash or hang. */
struct test_case {
    const char *name; /* "suite.case" */
    void (*run)(void **state);
    int number; /* order of definition */
};

/* Suite of a source file, in the order of its cases. */
struct suite {
    const char *name;
    size_t count;
    struct test_case cases[160];
};

/* `name` is the name without that of the suite. */
void add_case(struct suite *suite, int number, const char *name, void (*run)(void **state));

/* Names the suite of this source file. Precedes the cases. */
#define SUITE(name)                                                                                                    \
    struct suite name##_suite = {#name, 0, {{0}}};                                                                     \
    static struct suite *const this_suite = &name##_suite

/* Defines a case. The function body follows. */
#define CASE(function)                                                                                                 \
    static void function(void **state);                                                                                \
    __attribute__((constructor)) static void add_##function(void)                                                      \
    {                                                                                                                  \
        add_case(this_suite, __COUNTER__, #function, function);                                                        \
    }                                                                                                                  \
    static void function(__attribute__((unused)) void **state)

/* Defines a case that consists of one call. */
#define CALL_CASE(function, ...)                                                                                       \
    CASE(function)                                                                                                     \
    {                                                                                                                  \
        __VA_ARGS__;                                                                                                   \
    }                                                                                                                  \
    struct suite

/* Suites of this program, terminated by NULL. */
extern const struct suite *const suites[];
