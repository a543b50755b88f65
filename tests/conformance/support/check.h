// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "cmocka_headers.h"

#include <librpma.h>

/* Checks the result of a librpma call. */
void check_rpma(int actual, int expected, const char *call, const char *file, int line);
#define assert_rpma(call, expected) check_rpma(call, expected, #call, __FILE__, __LINE__)
#define assert_done(call) assert_rpma(call, 0)

void check_errno(int expected, const char *file, int line);
#define assert_errno(expected) check_errno(expected, __FILE__, __LINE__)

/* Checks that the call fails with RPMA_E_PROVIDER and sets errno to `error`. */
#define assert_provider(call, error)                                                                                   \
    do {                                                                                                               \
        assert_rpma(call, RPMA_E_PROVIDER);                                                                            \
        assert_errno(error);                                                                                           \
    } while (0)

/* Skips the case. The reason names the missing capability. */
/* Returns a function of LIBRPMA_1.4, or skips the case if the library lacks it. */
void *since_1_4(const char *name);
_Noreturn void skip_because(const char *format, ...) __attribute__((format(printf, 1, 2)));
