// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <cstddef>
#include <span>

namespace replica
{

// SipHash-2-4 with a result of 128 bits (Aumasson and Bernstein, 2012): authenticates short messages with a key.
using siphash_key = std::array<std::byte, 16>;
using siphash_result = std::array<std::byte, 16>;

siphash_result siphash_128(const siphash_key &key, std::span<const std::byte> message);

} // namespace replica
