// SPDX-License-Identifier: BSD-3-Clause
#include "wire/datagram.hpp"
#include "wire/headers.hpp"

#include <algorithm>
#include <cstring>

namespace softrdma
{

constexpr std::uint8_t send_only = 0x64;
constexpr std::uint8_t send_only_imm = 0x65;

constexpr std::size_t udp_size = 8;
constexpr std::uint8_t version = 0x60; // first byte, with a part of the traffic class
constexpr std::uint8_t version_mask = 0xf0;
constexpr std::uint8_t udp_protocol = 17;
constexpr std::uint8_t hop_limit = 64;
constexpr std::size_t source_offset = 8;

constexpr std::size_t v4_offset = 20;
constexpr std::size_t v4_source_offset = 32;
constexpr std::uint8_t v4_version = 0x45; // first byte, with the length of a header without options
constexpr std::size_t v4_size = 4;

datagram_headers encode(const datagram &d) noexcept
{
    datagram_headers headers;
    byte_writer w(headers.bytes.data());
    put(w, {.opcode = d.immediate ? send_only_imm : send_only,
                   .flags = d.solicited ? solicited_flag : std::uint8_t{0},
                   .dest_qpn = d.dest_qpn & psn_mask,
                   .psn = d.psn & psn_mask});
    w.put(d.qkey).put(d.source_qpn & psn_mask);
    if (d.immediate)
        w.put_raw(&d.imm_data, sizeof(d.imm_data));
    headers.size = w.size();
    return headers;
}

bool get_datagram(byte_reader &r, const bth &header, datagram &d) noexcept
{
    r.get(d.qkey).get(d.source_qpn);
    d.immediate = header.opcode == send_only_imm;
    d.imm_data = 0;
    if (d.immediate)
        r.get_raw(&d.imm_data, sizeof(d.imm_data));
    return r.good() && (header.opcode == send_only || d.immediate) && d.source_qpn <= psn_mask;
}

bool decode(std::span<const std::byte> bytes, datagram &d) noexcept
{
    byte_reader r(bytes);
    const bth header = get_bth(r);
    d.dest_qpn = header.dest_qpn;
    d.psn = header.psn;
    d.solicited = header.flags == solicited_flag;
    const bool is_datagram = get_datagram(r, header, d);
    d.payload = r.rest();
    return is_datagram && (header.flags & ~solicited_flag) == 0 && header.pkey == default_pkey &&
           std::max(d.dest_qpn, d.psn) <= psn_mask && d.payload.size() <= max_datagram_payload;
}

network_header header_of(const network_address &source, const network_address &destination, std::size_t bytes) noexcept
{
    network_header header{};
    byte_writer w(header.data());
    w.put(version).put_raw("\0\0", 3).put(static_cast<std::uint16_t>(udp_size + bytes));
    w.put(udp_protocol).put(hop_limit);
    w.put_raw(source.data(), source.size()).put_raw(destination.data(), destination.size());
    return header;
}

bool parse(const network_header &header, network_address &source, network_address &destination) noexcept
{
    if ((header[0] & std::byte{version_mask}) == std::byte{version}) {
        memcpy(source.data(), &header[source_offset], source.size());
        memcpy(destination.data(), &header[source_offset + source.size()], destination.size());
        return true;
    }
    source = destination = mapped_prefix;
    memcpy(&source[mapped_v4_position], &header[v4_source_offset], v4_size);
    memcpy(&destination[mapped_v4_position], &header[v4_source_offset + v4_size], v4_size);
    return header[v4_offset] == std::byte{v4_version};
}

} // namespace softrdma
