// SPDX-License-Identifier: BSD-3-Clause
#include "base/guard.hpp"
#include "memory_guard.hpp"

namespace softrdma
{

constinit std::atomic<bool> detail::guards{false};

void guard_mapped_files() noexcept
{
    memory_guard::install();
    detail::guards.store(true, std::memory_order_release);
}

bool detail::call_guarded(void (*call)(void *), void *argument) noexcept
{
    return memory_guard::call(call, argument);
}

bool is_readable(const std::byte *from, std::size_t bytes) noexcept
{
    constexpr std::size_t page = 4096; // minimum page size
    return guarded([=] {
        for (std::size_t at = 0; at < bytes; at += page)
            static_cast<void>(*const_cast<const volatile std::byte *>(from + at));
        static_cast<void>(*const_cast<const volatile std::byte *>(from + bytes - 1));
    });
}

} // namespace softrdma
