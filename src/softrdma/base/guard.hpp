// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <cstddef>
#include <type_traits>

namespace softrdma
{

namespace detail
{
extern std::atomic<bool> guards;
bool call_guarded(void (*call)(void *), void *argument) noexcept;
} // namespace detail

// Pages of a mapped file may be missing: the file was truncated, or its file system is full and the page is a hole.
// This includes private mappings, and huge pages that the system cannot provide. To be called before the first access
// to such memory: from then on guarded() handles the signal SIGBUS that an access raises; others go to the handler that
// the program has installed before.
void guard_mapped_files() noexcept;

// Calls something that copies to or from registered memory and does nothing else: it is left at the access that fails,
// and destructors are not run. False if it was left.
template<typename F>
bool guarded(const F &copy) noexcept
{
    if (detail::guards.load(std::memory_order_relaxed))
        return detail::call_guarded([](void *argument) { (*static_cast<const F *>(argument))(); },
                const_cast<void *>(static_cast<const void *>(&copy)));
    copy();
    return true;
}

// Of memory that is to be sent: if some of it is missing, the kernel could only break off in the middle of a packet.
bool is_readable(const std::byte *from, std::size_t bytes) noexcept;

} // namespace softrdma
