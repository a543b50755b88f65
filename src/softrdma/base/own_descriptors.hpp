// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <type_traits>

namespace softrdma
{

namespace detail
{
bool with_own_descriptors(void (*call)(void *), void *argument) noexcept;
} // namespace detail

// Calls a function in a thread with a private descriptor table, and waits for it. POSIX file locks of a process belong
// to its table, and closing any descriptor of the file releases them. Files opened, received and closed in this thread
// therefore do not affect the locks of the program. All descriptors of the thread are closed at its end. Returns false,
// without a call, if the thread cannot be created or still shares the table of the caller.
template<typename F>
bool with_own_descriptors(F &&call) noexcept
{
    return detail::with_own_descriptors(
            [](void *argument) { (*static_cast<std::remove_reference_t<F> *>(argument))(); },
            const_cast<void *>(static_cast<const void *>(&call)));
}

} // namespace softrdma
