// SPDX-License-Identifier: BSD-3-Clause
#include "wire/frame.hpp"
#include "bytes.hpp"

#include <algorithm>

namespace softrdma
{

namespace
{

constexpr std::uint8_t solicited_flag = 0x80;
constexpr std::uint8_t no_ack_req_flag =
        0x40; // in the bit of MigReq: a peer without support for it responds immediately

bool is_known(opcode op) noexcept
{
    return op <= opcode::fetch_add || has_ieth(op) || is_round_trip(op) || op == opcode::receive_posted ||
           op == opcode::ack_request || is_control(op);
}

bool is_divisible(opcode op) noexcept
{
    return is_send(op) || is_write(op) || is_read_response(op);
}

bool carries_payload(opcode op) noexcept
{
    return is_divisible(op) || op == opcode::atomic_write || is_control(op);
}

constexpr std::uint32_t placement_mask = 0x0f;
constexpr unsigned level_shift = 4;
constexpr std::uint32_t level_mask = 0x03;

// Decodes the complete headers of a frame; the rest is the payload.
bool decode_start(std::span<const std::byte> frame, packet &p) noexcept
{
    byte_reader r(frame.subspan(length_size));
    p = {};
    p.op = static_cast<opcode>(r.get<std::uint8_t>());
    const auto flags = r.get<std::uint8_t>();
    p.solicited = (flags & solicited_flag) != 0;
    p.no_ack_req = (flags & no_ack_req_flag) != 0;
    r.get<std::uint16_t>();
    p.dest_qpn = r.get<std::uint32_t>();
    p.psn = r.get<std::uint32_t>();
    if (!r.good() || !is_known(p.op) || p.dest_qpn > psn_mask || p.psn > psn_mask)
        return false;
    if (p.op == opcode::flush) {
        const auto feth = r.get<std::uint32_t>();
        p.placement = static_cast<std::uint8_t>(feth & placement_mask);
        p.level = static_cast<std::uint8_t>(feth >> level_shift & level_mask);
    }
    if (has_reth(p.op)) {
        p.remote_addr = r.get<std::uint64_t>();
        p.rkey = r.get<std::uint32_t>();
        p.dma_length = r.get<std::uint32_t>();
    }
    if (is_atomic(p.op)) {
        p.remote_addr = r.get<std::uint64_t>();
        p.rkey = r.get<std::uint32_t>();
        p.swap_add = r.get<std::uint64_t>();
        p.compare = r.get<std::uint64_t>();
    }
    if (has_aeth(p.op))
        p.syndrome = static_cast<std::uint8_t>(r.get<std::uint32_t>() >> 24);
    if (p.op == opcode::atomic_acknowledge)
        p.swap_add = r.get<std::uint64_t>();
    if (has_imm(p.op))
        r.get_raw(&p.imm_data, sizeof(p.imm_data));
    if (has_ieth(p.op))
        p.rkey = r.get<std::uint32_t>();
    p.payload = r.rest();
    return r.good() && (p.payload.empty() || carries_payload(p.op));
}

} // namespace

frame_headers encode(const packet &p, std::size_t payload_size) noexcept
{
    frame_headers h;
    byte_writer w(h.bytes.data() + length_size);
    w.put(static_cast<std::uint8_t>(p.op))
            .put(static_cast<std::uint8_t>((p.solicited ? solicited_flag : 0) | (p.no_ack_req ? no_ack_req_flag : 0)))
            .put(default_pkey)
            .put(p.dest_qpn & psn_mask)
            .put(p.psn & psn_mask);
    if (p.op == opcode::flush)
        w.put((p.level & level_mask) << level_shift | (p.placement & placement_mask));
    if (has_reth(p.op))
        w.put(p.remote_addr).put(p.rkey).put(p.dma_length);
    if (is_atomic(p.op))
        w.put(p.remote_addr).put(p.rkey).put(p.swap_add).put(p.compare);
    if (has_aeth(p.op))
        w.put(static_cast<std::uint32_t>(p.syndrome) << 24);
    if (p.op == opcode::atomic_acknowledge)
        w.put(p.swap_add);
    if (has_imm(p.op))
        w.put_raw(&p.imm_data, sizeof(p.imm_data));
    if (has_ieth(p.op))
        w.put(p.rkey);
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
