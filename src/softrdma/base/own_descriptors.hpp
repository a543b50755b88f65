// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <type_traits>

namespace softrdma
{

namespace detail
{
bool with_own_descriptors(void (*call)(void *), void *argument) noexcept;
} // namespace detail

// Calls a function in a thread with its own descriptor table, which is then closed: in a shared one, closing a file
// would release POSIX locks of the program. Returns false, without a call, if there is no such thread.
template<typename F>
bool with_own_descriptors(F &&call) noexcept
{
    return detail::with_own_descriptors(
            [](void *argument) { (*static_cast<std::remove_reference_t<F> *>(argument))(); },
            const_cast<void *>(static_cast<const void *>(&call)));
}

} // namespace softrdma
