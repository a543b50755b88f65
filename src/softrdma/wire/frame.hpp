// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "wire/packet.hpp"

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

// The packets of a stream of frames. What has arrived of a long segment is handed on as a shorter one: it means the
// same, and needs no room for the rest, which is still on its way.
class frame_reader
{
public:
    // What is handed on of an unfinished segment is a multiple of that, so that an aligned target stays aligned.
    static constexpr std::size_t unit = 64;
    // Frames of up to that many bytes are handed on whole. No other needs more room.
    static constexpr std::size_t whole = 16 * 1024;

    enum class found {
        packet,
        too_little,
        garbage,
    };
    // The next packet at the start of `input`, and how many bytes it has taken. Its payload points into the input.
    found next(std::span<const std::byte> input, packet &p, std::size_t &taken) noexcept;

    // The segment whose payload goes on, and how many bytes of it were not handed on yet.
    const packet &begun() const noexcept { return begun_; }
    std::size_t left() const noexcept { return left_; }
    // The packet of payload that did not come as input: a multiple of the unit, and less than is left.
    packet pass(std::span<const std::byte> payload) noexcept { return part(payload, false); }

private:
    packet part(std::span<const std::byte> payload, bool begins) noexcept;

    packet begun_;         // the header of the segment whose payload goes on
    std::size_t left_ = 0; // bytes of it
};

} // namespace softrdma::net
