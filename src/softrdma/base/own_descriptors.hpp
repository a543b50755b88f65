// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <type_traits>

namespace softrdma
{

namespace detail
{
bool with_own_descriptors(void (*call)(void *), void *argument) noexcept;
} // namespace detail

// Calls something in a thread that has a copy of the table of descriptors to itself, and waits for it. The POSIX locks
// of a process on a file go when the process closes any descriptor of that file, and they belong to the table: what is
// opened, received and closed in there leaves the program's locks alone. Nothing of it stays open. Returns false,
// without a call, if the system cannot create such a thread or if the thread still shares the table of the caller.
template<typename F>
bool with_own_descriptors(F &&call) noexcept
{
    return detail::with_own_descriptors(
            [](void *argument) { (*static_cast<std::remove_reference_t<F> *>(argument))(); },
            const_cast<void *>(static_cast<const void *>(&call)));
}

} // namespace softrdma
