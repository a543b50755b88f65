// SPDX-License-Identifier: BSD-3-Clause
/* Headers that cmocka.h requires. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
