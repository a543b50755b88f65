// SPDX-License-Identifier: BSD-3-Clause
// Failure of operator new, for a test in C.
#include <new>

extern "C" void *no_object(void);

void *no_object(void)
{
    throw std::bad_alloc();
}
