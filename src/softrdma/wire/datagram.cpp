// SPDX-License-Identifier: BSD-3-Clause
#include "wire/datagram.hpp"
#include "bytes.hpp"

#include <algorithm>
#include <cstring>

namespace softrdma
{

namespace
{

constexpr std::uint8_t send_only = 0x64;
constexpr std::uint8_t send_only_imm = 0x65;
constexpr std::uint8_t solicited_event = 0x80;
constexpr std::uint16_t default_pkey = 0xffff;
constexpr std::uint32_t three_bytes = 0xffffff;

constexpr std::size_t v4_offset = 20; // of an IPv4 header, which follows as many bytes without a meaning
constexpr std::size_t v4_size = 20;
constexpr std::size_t udp_size = 8;
constexpr std::uint8_t v4_first_byte = 0x45; // version and header length
constexpr std::uint8_t v6_first_byte = 0x60;
constexpr std::uint8_t time_to_live = 64;
constexpr std::uint8_t udp_protocol = 17;
constexpr std::array<std::byte, 12> v4_prefix = [] {
    std::array<std::byte, 12> prefix{};
    prefix[10] = prefix[11] = std::byte{0xff};
    return prefix;
}();

bool is_v4(const network_address &address) noexcept
{
    return std::equal(v4_prefix.begin(), v4_prefix.end(), address.begin());
}

std::uint16_t checksum_of(std::span<const std::byte> header) noexcept
{
    std::uint32_t sum = 0;
    for (byte_reader r(header); !r.rest().empty();)
        sum += r.get<std::uint16_t>();
    while (sum > UINT16_MAX)
        sum = (sum & UINT16_MAX) + (sum >> 16);
    return static_cast<std::uint16_t>(~sum);
}

void put_v4(std::byte *at, const network_address &source, const network_address &destination, std::size_t bytes)
{
    byte_writer w(at);
    w.put(v4_first_byte).put(std::uint8_t{0}).put(static_cast<std::uint16_t>(v4_size + udp_size + bytes));
    w.put(std::uint32_t{0}).put(time_to_live).put(udp_protocol).put(std::uint16_t{0});
    w.put_raw(source.data() + v4_prefix.size(), 4).put_raw(destination.data() + v4_prefix.size(), 4);
    constexpr std::size_t checksum_offset = 10;
    byte_writer(at + checksum_offset).put(checksum_of({at, v4_size}));
}

void put_v6(std::byte *at, const network_address &source, const network_address &destination, std::size_t bytes)
{
    byte_writer w(at);
    w.put(v6_first_byte).put_raw("\0\0", 3).put(static_cast<std::uint16_t>(udp_size + bytes));
    w.put(udp_protocol).put(time_to_live);
    w.put_raw(source.data(), source.size()).put_raw(destination.data(), destination.size());
}

network_address v4_address(std::span<const std::byte> four) noexcept
{
    network_address address;
    std::copy(four.begin(), four.end(), std::copy(v4_prefix.begin(), v4_prefix.end(), address.begin()));
    return address;
}

} // namespace

datagram_headers encode(const datagram &d) noexcept
{
    datagram_headers headers;
    byte_writer w(headers.bytes.data());
    w.put(d.immediate ? send_only_imm : send_only).put(d.solicited ? solicited_event : std::uint8_t{0});
    w.put(default_pkey).put(d.dest_qpn & three_bytes).put(d.psn & three_bytes);
    w.put(d.qkey).put(d.source_qpn & three_bytes);
    if (d.immediate)
        w.put_raw(&d.imm_data, sizeof(d.imm_data));
    headers.size = w.size();
    return headers;
}

bool decode(std::span<const std::byte> bytes, datagram &d) noexcept
{
    byte_reader r(bytes);
    const auto opcode = r.get<std::uint8_t>();
    const auto flags = r.get<std::uint8_t>();
    const auto pkey = r.get<std::uint16_t>();
    d.dest_qpn = r.get<std::uint32_t>();
    d.psn = r.get<std::uint32_t>();
    d.qkey = r.get<std::uint32_t>();
    d.source_qpn = r.get<std::uint32_t>();
    d.immediate = opcode == send_only_imm;
    d.solicited = flags == solicited_event;
    d.imm_data = 0;
    if (d.immediate)
        r.get_raw(&d.imm_data, sizeof(d.imm_data));
    d.payload = r.rest();
    return r.good() && (opcode == send_only || d.immediate) && (flags & ~solicited_event) == 0 &&
           pkey == default_pkey && std::max({d.dest_qpn, d.psn, d.source_qpn}) <= three_bytes &&
           d.payload.size() <= max_datagram_payload;
}

network_header header_of(const network_address &source, const network_address &destination, std::size_t bytes) noexcept
{
    network_header header{};
    if (is_v4(destination))
        put_v4(header.data() + v4_offset, source, destination, bytes);
    else
        put_v6(header.data(), source, destination, bytes);
    return header;
}

// An IPv4 header begins in the middle, where an IPv6 header has the end of its source: its checksum tells it from that.
bool parse(const network_header &header, network_address &source, network_address &destination) noexcept
{
    const std::span<const std::byte> v4 = std::span(header).subspan(v4_offset);
    if (v4[0] == std::byte{v4_first_byte} && checksum_of(v4) == 0) {
        constexpr std::size_t source_offset = 12;
        source = v4_address(v4.subspan(source_offset, 4));
        destination = v4_address(v4.subspan(source_offset + 4, 4));
        return true;
    }
    constexpr std::size_t source_offset = 8;
    const std::span<const std::byte> v6(header);
    memcpy(source.data(), &v6[source_offset], source.size());
    memcpy(destination.data(), &v6[source_offset + source.size()], destination.size());
    return (v6[0] & std::byte{0xf0}) == std::byte{v6_first_byte};
}

} // namespace softrdma
