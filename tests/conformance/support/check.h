// SPDX-License-Identifier: BSD-3-Clause
#ifndef CONFORMANCE_CHECK_H
#define CONFORMANCE_CHECK_H

#include "cmocka_headers.h"

#include <librpma.h>

/* A call of librpma must give this result. */
void check_rpma(int actual, int expected, const char *call, const char *file, int line);
#define assert_rpma(call, expected) check_rpma(call, expected, #call, __FILE__, __LINE__)
#define assert_done(call) assert_rpma(call, 0)

/* errno as it is. */
void check_errno(int expected, const char *file, int line);
#define assert_errno(expected) check_errno(expected, __FILE__, __LINE__)

/* The call must fail in the provider and report the cause in errno. */
#define assert_provider(call, error)                                                                                   \
    do {                                                                                                               \
        assert_rpma(call, RPMA_E_PROVIDER);                                                                            \
        assert_errno(error);                                                                                           \
    } while (0)

/* Ends the case, which counts as skipped: the reason names the capability that is missing. */
/* A function of LIBRPMA_1.4. A case for a library without it ends here, skipped. */
void *since_1_4(const char *name);
_Noreturn void skip_because(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
