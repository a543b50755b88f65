// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <type_traits>

namespace softrdma
{

namespace detail
{
bool with_own_descriptors(void (*call)(void *), void *argument) noexcept;
} // namespace detail

// Calls a function in a thread with its own descriptor table, whose descriptors are then closed, and waits for it.
// POSIX locks belong to a table, and closing any descriptor of the file releases them, so locks of the program are not
// affected. Returns false, without a call, if there is no such thread.
template<typename F>
bool with_own_descriptors(F &&call) noexcept
{
    return detail::with_own_descriptors(
            [](void *argument) { (*static_cast<std::remove_reference_t<F> *>(argument))(); },
            const_cast<void *>(static_cast<const void *>(&call)));
}

} // namespace softrdma
