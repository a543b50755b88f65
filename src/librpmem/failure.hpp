// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cerrno>
#include <new>
#include <system_error>

namespace rpmem
{

// Stores the message for rpmem_errormsg() of this thread, logs it, sets errno, and returns -1.
[[gnu::format(printf, 2, 3)]] int fail(int error, const char *pattern, ...);

const char *last_failure();
// Reports the failure of another thread or of an earlier step, unless it is the last one that was reported. Returns -1.
int fail_again(int error, const char *reason);

// Calls f, which returns 0, or -1 with the failure reported. Reports exceptions, too. No exception may leave a C
// function.
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
