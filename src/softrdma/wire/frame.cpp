// SPDX-License-Identifier: BSD-3-Clause
#include "wire/frame.hpp"

#include <algorithm>

namespace softrdma
{

namespace
{

// Uses the bit of MigReq. A peer that does not know the flag responds immediately.
constexpr std::uint8_t no_ack_req_flag = migrated_flag;

bool is_known(opcode op) noexcept
{
    return op <= opcode::fetch_add || has_ieth(op) || is_round_trip(op) || op == opcode::receive_posted ||
           op == opcode::ack_request || is_control(op);
}

bool carries_payload(opcode op) noexcept
{
    return is_divisible(op) || op == opcode::atomic_write || is_control(op);
}

// Decodes the complete headers of a frame; the rest is the payload.
bool decode_start(std::span<const std::byte> frame, packet &p) noexcept
{
    byte_reader r(frame.subspan(length_size));
    p = {};
    const bth header = get_bth(r);
    p.op = static_cast<opcode>(header.opcode);
    p.solicited = (header.flags & solicited_flag) != 0;
    p.no_ack_req = (header.flags & no_ack_req_flag) != 0;
    p.dest_qpn = header.dest_qpn;
    p.psn = header.psn;
    if (!r.good() || !is_known(p.op) || p.dest_qpn > psn_mask || p.psn > psn_mask)
        return false;
    get_extended(r, p);
    p.payload = r.rest();
    return r.good() && (p.payload.empty() || carries_payload(p.op));
}

} // namespace

frame_headers encode(const packet &p, std::size_t payload_size) noexcept
{
    frame_headers h;
    byte_writer w(h.bytes.data() + length_size);
    const int flags = (p.solicited ? solicited_flag : 0) | (p.no_ack_req ? no_ack_req_flag : 0);
    put(w, {.opcode = static_cast<std::uint8_t>(p.op),
                   .flags = static_cast<std::uint8_t>(flags),
                   .dest_qpn = p.dest_qpn & psn_mask,
                   .psn = p.psn & psn_mask});
    put_extended(w, p);
    h.size = length_size + w.size();
    byte_writer(h.bytes.data()).put(static_cast<std::uint32_t>(w.size() + payload_size));
    return h;
}

std::optional<std::size_t> frame_size(std::span<const std::byte> start) noexcept
{
    byte_reader r(start);
    const auto length = r.get<std::uint32_t>();
    if (!r.good())
        return 0;
    if (length > max_frame - length_size)
        return std::nullopt;
    return length_size + length;
}

bool decode(std::span<const std::byte> frame, packet &p) noexcept
{
    return frame.size() >= length_size && frame_size(frame) == frame.size() && decode_start(frame, p) &&
           p.payload.size() <= max_segment;
}

frame_reader::found frame_reader::next(std::span<const std::byte> input, packet &p, std::size_t &taken) noexcept
{
    const bool begins = left_ == 0;
    std::size_t headers = 0;
    if (begins) {
        const auto size = frame_size(input);
        if (!size)
            return found::garbage;
        if (*size != 0 && input.size() >= *size) {
            taken = *size;
            return decode(input.first(*size), p) ? found::packet : found::garbage;
        }
        if (input.size() < whole || *size <= whole)
            return found::too_little;
        if (!decode_start(input, partial_) || !is_divisible(partial_.op))
            return found::garbage;
        headers = input.size() - partial_.payload.size();
        left_ = *size - headers;
        if (left_ > max_segment)
            return found::garbage;
    }
    std::size_t bytes = std::min(input.size() - headers, left_);
    if (bytes < left_)
        bytes -= bytes % unit;
    if (bytes == 0)
        return found::too_little;
    taken = headers + bytes;
    p = part(input.subspan(headers, bytes), begins);
    return found::packet;
}

packet frame_reader::part(std::span<const std::byte> payload, bool begins) noexcept
{
    left_ -= payload.size();
    packet p = partial_;
    const opcode op = partial_.op;
    const bool is_response_start = op == opcode::read_response_first || op == opcode::read_response_only;
    const bool is_response_end = op == opcode::read_response_last || op == opcode::read_response_only;
    p.op = part_of(op, begins && (is_first(op) || is_response_start), left_ == 0 && (is_last(op) || is_response_end));
    p.payload = payload;
    return p;
}

} // namespace softrdma
