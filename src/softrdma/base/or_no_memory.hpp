// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cerrno>
#include <new>

namespace softrdma
{

// Converts std::bad_alloc for C callers: sets errno to ENOMEM and returns `failing`. Must not be used for a call that
// blocks. A thread that is canceled there (pthread_cancel) is unwound by the C library, which cannot pass a catch
// handler in a library with its own unwinder.
template<typename T, typename Call>
T or_no_memory(T failing, Call call) noexcept
{
    try {
        return call();
    } catch (const std::bad_alloc &) {
        errno = ENOMEM;
        return failing;
    }
}

} // namespace softrdma
