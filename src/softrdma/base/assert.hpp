// SPDX-License-Identifier: BSD-3-Clause
#pragma once

// What always holds between two steps. A build that checks it (SOFTRDMA_ASSERTIONS: all but those that are released)
// says on standard error what does not, and aborts; another one does not even evaluate it.
#ifdef SOFTRDMA_ASSERTIONS
#include <cstdio>
#include <cstdlib>
#define SOFTRDMA_ASSERT(condition)                                                                                     \
    do {                                                                                                               \
        if (!(condition)) [[unlikely]] {                                                                               \
            fprintf(stderr, "softrdma: %s:%d: it does not hold that %s\n", __FILE__, __LINE__, #condition);            \
            abort();                                                                                                   \
        }                                                                                                              \
    } while (false)
#else
#define SOFTRDMA_ASSERT(condition) static_cast<void>(sizeof(static_cast<bool>(condition)))
#endif
