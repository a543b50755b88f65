// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

namespace softrdma
{

// Copies between registered memory and private buffers, ascending, so that a concurrent reader or writer of the
// registered side never meets half of an aligned 8-byte word.

void copy_out(std::byte *to, const std::byte *registered, std::size_t bytes) noexcept;
void copy_some_in(std::byte *registered, const std::byte *from, std::size_t bytes) noexcept;

// The last word is stored last and with release ordering: programs poll on it. Often it is the only one.
inline void copy_in(std::byte *registered, const std::byte *from, std::size_t bytes) noexcept
{
    std::uint64_t word;
    if (bytes != sizeof(word) || reinterpret_cast<std::uintptr_t>(registered) % sizeof(word) != 0)
        return copy_some_in(registered, from, bytes);
    memcpy(&word, from, sizeof(word));
    __atomic_store_n(reinterpret_cast<std::uint64_t *>(registered), word, __ATOMIC_RELEASE);
}

} // namespace softrdma
