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

// Installs the SIGBUS handler of guarded(). Must be called before the first access to memory of a mapped file, private
// mappings and huge pages included. Pages of it may be missing: the file was truncated, its file system is full, or no
// huge page is left. Other SIGBUS signals are forwarded to the handler that the program had installed before.
void guard_mapped_files() noexcept;

// Calls `copy`, which only copies registered memory. Returns false if an access fails: siglongjmp() then leaves `copy`.
template<typename F>
bool guarded(const F &copy) noexcept
{
    if (detail::guards.load(std::memory_order_relaxed))
        return detail::call_guarded([](void *argument) { (*static_cast<const F *>(argument))(); },
                const_cast<void *>(static_cast<const void *>(&copy)));
    copy();
    return true;
}

// Checks memory that will be sent. If a page is missing, the kernel could only stop in the middle of a packet.
bool is_readable(const std::byte *from, std::size_t bytes) noexcept;

} // namespace softrdma
