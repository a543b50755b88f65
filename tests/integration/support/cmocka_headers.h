// SPDX-License-Identifier: BSD-3-Clause
/* cmocka.h requires these headers before it. */
#ifndef RPMA_TESTS_INTEGRATION_CMOCKA_HEADERS_H
#define RPMA_TESTS_INTEGRATION_CMOCKA_HEADERS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#endif
