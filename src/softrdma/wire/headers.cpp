// SPDX-License-Identifier: BSD-3-Clause
#include "wire/headers.hpp"

namespace softrdma
{

constexpr std::uint32_t placement_mask = 0x0f;
constexpr unsigned level_shift = 4;
constexpr std::uint32_t level_mask = 0x03;
constexpr unsigned syndrome_shift = 24;

void put(byte_writer &w, const bth &header) noexcept
{
    w.put(header.opcode).put(header.flags).put(header.pkey).put(header.dest_qpn).put(header.psn);
}

bth get_bth(byte_reader &r) noexcept
{
    bth header;
    r.get(header.opcode).get(header.flags).get(header.pkey).get(header.dest_qpn).get(header.psn);
    return header;
}

void put_extended(byte_writer &w, const packet &p) noexcept
{
    if (p.op == opcode::flush)
        w.put((p.level & level_mask) << level_shift | (p.placement & placement_mask));
    if (has_reth(p.op))
        w.put(p.remote_addr).put(p.rkey).put(p.dma_length);
    if (is_atomic(p.op))
        w.put(p.remote_addr).put(p.rkey).put(p.swap_add).put(p.compare);
    if (has_aeth(p.op))
        w.put(static_cast<std::uint32_t>(p.syndrome) << syndrome_shift | (p.msn & psn_mask));
    if (p.op == opcode::atomic_acknowledge)
        w.put(p.swap_add);
    if (has_imm(p.op))
        w.put_raw(&p.imm_data, sizeof(p.imm_data));
    if (has_ieth(p.op))
        w.put(p.rkey);
}

void get_extended(byte_reader &r, packet &p) noexcept
{
    if (p.op == opcode::flush) {
        const auto feth = r.get<std::uint32_t>();
        p.placement = static_cast<std::uint8_t>(feth & placement_mask);
        p.level = static_cast<std::uint8_t>(feth >> level_shift & level_mask);
    }
    if (has_reth(p.op))
        r.get(p.remote_addr).get(p.rkey).get(p.dma_length);
    if (is_atomic(p.op))
        r.get(p.remote_addr).get(p.rkey).get(p.swap_add).get(p.compare);
    if (has_aeth(p.op)) {
        const auto aeth = r.get<std::uint32_t>();
        p.syndrome = static_cast<std::uint8_t>(aeth >> syndrome_shift);
        p.msn = aeth & psn_mask;
    }
    if (p.op == opcode::atomic_acknowledge)
        r.get(p.swap_add);
    if (has_imm(p.op))
        r.get_raw(&p.imm_data, sizeof(p.imm_data));
    if (has_ieth(p.op))
        r.get(p.rkey);
}

} // namespace softrdma
