// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cerrno>
#include <new>

namespace softrdma
{

template<typename T>
T fail_with(T result, int error) noexcept
{
    errno = error;
    return result;
}

// Converts std::bad_alloc for C callers: sets errno to ENOMEM and returns `failing`. Not for blocking calls: the C
// library cannot unwind a canceled thread (pthread_cancel) through a catch handler of a library with its own unwinder.
template<typename T, typename Call>
T or_no_memory(T failing, Call call) noexcept
{
    try {
        return call();
    } catch (const std::bad_alloc &) {
        return fail_with(failing, ENOMEM);
    }
}

} // namespace softrdma
