// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// Checks an invariant. Builds with SOFTRDMA_ASSERTIONS (all except releases) print a failed condition and abort.
#ifdef SOFTRDMA_ASSERTIONS
#include <cstdio>
#include <cstdlib>
#define SOFTRDMA_ASSERT(condition)                                                                                     \
    do {                                                                                                               \
        if (!(condition)) [[unlikely]] {                                                                               \
            fprintf(stderr, "softrdma: %s:%d: assertion failed: %s\n", __FILE__, __LINE__, #condition);                \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (false)
#else
#define SOFTRDMA_ASSERT(condition) static_cast<void>(sizeof(static_cast<bool>(condition)))
#endif
