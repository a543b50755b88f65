// SPDX-License-Identifier: BSD-3-Clause
#ifndef CONFORMANCE_SUITE_H
#define CONFORMANCE_SUITE_H

#include <stddef.h>

/* A case runs in a process of its own. It need not release its objects, and may crash or hang. */
struct test_case {
    const char *name;
    void (*run)(void **state);
};

/* The full name of a case is "suite.case". */
struct suite {
    const char *name;
    const struct test_case *cases;
    size_t count;
};

#define CASE(function)                                                                                                 \
    {                                                                                                                  \
#function, function                                                                                            \
    }
#define SUITE(name, cases) const struct suite name##_suite = {#name, cases, sizeof(cases) / sizeof((cases)[0])}

/* Suites of this program, terminated by NULL. */
extern const struct suite *const suites[];

#endif
