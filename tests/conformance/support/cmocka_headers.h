// SPDX-License-Identifier: BSD-3-Clause
/* Headers that cmocka.h requires. */
#ifndef CONFORMANCE_CMOCKA_HEADERS_H
#define CONFORMANCE_CMOCKA_HEADERS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#endif
