// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cerrno>
#include <new>
#include <system_error>

namespace rpmem
{

// Stores the message for rpmem_errormsg() of this thread, logs it, sets errno, and returns -1. Functions of the library
// that return int return 0 or the result of fail(), unless stated otherwise.
[[gnu::format(printf, 2, 3)]] int fail(int error, const char *pattern, ...);

const char *last_failure();
// Reports the failure of another thread or of an earlier step, unless it was the last one reported. Returns -1.
int fail_again(int error, const char *reason);

// Calls f and returns its result. Reports exceptions, which must not leave a C function, as failures.
template<class F>
int guarded(F &&f)
{
    try {
        return f();
    } catch (const std::bad_alloc &) {
        return fail(ENOMEM, "out of memory");
    } catch (const std::system_error &error) {
        return fail(error.code().value(), "%s", error.what());
    }
}

} // namespace rpmem
