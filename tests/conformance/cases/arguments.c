// SPDX-License-Identifier: BSD-3-Clause
/* A NULL argument that is not allowed is rejected before any other argument is checked. */
#include "../driver/suite.h"
#include "../support/check.h"

SUITE(arguments);

/* Not NULL and not mapped: an access ends the case. */
#define BOGUS ((void *)(uintptr_t)64)

static const char word[8];

#define NULL_ARGUMENT(function, parameter, ...)                                                                        \
    CALL_CASE(function##_refuses_null_##parameter, assert_rpma(function(__VA_ARGS__), RPMA_E_INVAL));
#include "null_arguments.def"
