// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cerrno>
#include <new>

namespace rpmem
{

// Stores the message for rpmem_errormsg() of this thread, logs it, sets errno, and returns -1.
[[gnu::format(printf, 2, 3)]] int fail(int error, const char *pattern, ...);

const char *last_failure();

// Calls f, which returns an int. Reports ENOMEM if memory for a message is missing.
template<class F>
int guarded(F &&f)
{
    try {
        return f();
    } catch (const std::bad_alloc &) {
        return fail(ENOMEM, "out of memory");
    }
}

} // namespace rpmem
