// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "core/packet.hpp"

#include <array>
#include <optional>

namespace softrdma::net
{

// A packet on the wire: a 4-byte length of what follows, the InfiniBand headers of its opcode (BTH, then FETH, RETH,
// AtomicETH, AETH, AtomicAckETH, ImmDt where the opcode has them), the payload. All numbers are big-endian.

inline constexpr std::size_t length_size = 4;
inline constexpr std::size_t max_headers = length_size + 12 + 28; // BTH and AtomicETH
inline constexpr std::size_t max_frame = max_headers + max_segment;

struct frame_headers {
    std::array<std::byte, max_headers> bytes;
    std::size_t size = 0;
};

frame_headers encode(const packet &p, std::size_t payload_size) noexcept;

// Size of the whole frame that starts with these bytes: 0 while unknown, nothing if no frame has such a size.
std::optional<std::size_t> frame_size(std::span<const std::byte> start) noexcept;

// Decodes one whole frame; the packet's payload points into it. False for anything encode() cannot have made.
bool decode(std::span<const std::byte> frame, packet &p) noexcept;

} // namespace softrdma::net
