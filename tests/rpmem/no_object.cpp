// SPDX-License-Identifier: BSD-3-Clause
// Failures of operator new and of std::thread, for a test in C.
#include <cerrno>
#include <new>
#include <system_error>

extern "C" void *no_object(void);
extern "C" void no_thread(void);

void no_thread(void)
{
    throw std::system_error(EAGAIN, std::generic_category());
}

void *no_object(void)
{
    throw std::bad_alloc();
}
