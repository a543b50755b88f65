// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstddef>

namespace softrdma
{

// Copies between registered memory and private buffers, ascending, so that a concurrent reader or writer of the
// registered side never meets half of an aligned 8-byte word.

// The last word is stored last and with release ordering: programs poll on it.
void copy_in(std::byte *registered, const std::byte *from, std::size_t bytes) noexcept;
void copy_out(std::byte *to, const std::byte *registered, std::size_t bytes) noexcept;

} // namespace softrdma
