// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "wire/headers.hpp"

#include <array>
#include <optional>

namespace softrdma
{

// A packet on the wire: a 4-byte length of the rest, the InfiniBand headers of its opcode (BTH, then FETH, RETH,
// AtomicETH, AETH, AtomicAckETH, ImmDt if the opcode has them), the payload. All numbers are big-endian.

inline constexpr std::size_t length_size = 4;
inline constexpr std::size_t max_headers = length_size + bth_size + max_extended_size;
inline constexpr std::size_t max_frame = max_headers + max_segment;

struct frame_headers {
    std::array<std::byte, max_headers> bytes;
    std::size_t size = 0;
};

frame_headers encode(const packet &p, std::size_t payload_size) noexcept;

// Size of the whole frame that starts with these bytes: 0 if not known yet, std::nullopt if the size is invalid.
std::optional<std::size_t> frame_size(std::span<const std::byte> start) noexcept;

// Decodes one whole frame; the packet's payload points into it. Returns false for frames that encode() cannot produce.
bool decode(std::span<const std::byte> frame, packet &p) noexcept;

// Splits a stream of frames into packets. A partly received long segment becomes a shorter one, without a buffer.
class frame_reader
{
public:
    // Parts of an unfinished segment are multiples of this size, so that an aligned target stays aligned.
    static constexpr std::size_t unit = 64;
    // Frames of up to this size are returned whole. Longer ones need no larger buffer.
    static constexpr std::size_t whole = 16 * 1024;

    enum class found {
        packet,
        too_little,
        garbage,
    };
    // Returns the next packet of `input`, into which its payload points, and the bytes taken.
    found next(std::span<const std::byte> input, packet &p, std::size_t &taken) noexcept;

    // The segment whose payload is partly received, and the bytes of it that were not returned yet.
    const packet &partial() const noexcept { return partial_; }
    std::size_t left() const noexcept { return left_; }
    // Packet for payload that was not read from the input: a multiple of the unit, and less than left().
    packet pass(std::span<const std::byte> payload) noexcept { return part(payload, false); }

private:
    packet part(std::span<const std::byte> payload, bool begins) noexcept;

    packet partial_;       // header of the segment whose payload is partly received
    std::size_t left_ = 0; // missing bytes of partial_
};

} // namespace softrdma
