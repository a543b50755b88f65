// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "bytes.hpp"
#include "wire/datagram.hpp"
#include "wire/packet.hpp"

namespace softrdma
{

// Transport headers of the InfiniBand specification, shared by the frames of a TCP connection and the packets of RoCE.

inline constexpr std::size_t bth_size = 12;
inline constexpr std::size_t max_extended_size = 28; // AtomicETH

// Base transport header. The numbers contain the reserved bits above them; AckReq is bit 31 of `psn`.
struct bth {
    std::uint8_t opcode = 0;
    std::uint8_t flags = 0;
    std::uint16_t pkey = default_pkey;
    std::uint32_t dest_qpn = 0;
    std::uint32_t psn = 0;
};
inline constexpr std::uint8_t solicited_flag = 0x80;
inline constexpr std::uint8_t migrated_flag = 0x40;
inline constexpr unsigned padding_shift = 4; // position of the pad count in `flags`
inline constexpr std::uint32_t ack_req_bit = 1u << 31;

void put(byte_writer &w, const bth &header) noexcept;
bth get_bth(byte_reader &r) noexcept;

// Headers between BTH and payload that the opcode requires: FETH, RETH, AtomicETH, AETH, AtomicAckETH, ImmDt, IETH.
void put_extended(byte_writer &w, const packet &p) noexcept;
void get_extended(byte_reader &r, packet &p) noexcept;

// DETH and ImmDt. Returns false if the opcode is not one of a datagram.
bool get_datagram(byte_reader &r, const bth &header, datagram &d) noexcept;

} // namespace softrdma
