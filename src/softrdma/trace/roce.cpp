// SPDX-License-Identifier: BSD-3-Clause
#include "trace/roce.hpp"
#include "bytes.hpp"
#include "wire/frame.hpp"

#include <array>
#include <netinet/in.h>

namespace softrdma::trace
{

namespace
{

constexpr std::size_t ethernet_size = 14;
constexpr std::size_t ipv4_size = 20;
constexpr std::size_t ipv6_size = 40;
constexpr std::size_t udp_size = 8;
constexpr std::size_t icrc_size = 4;
constexpr std::uint16_t roce_port = 4791;
constexpr std::uint16_t ephemeral_port = 0xc000;
constexpr std::uint8_t hop_limit = 64;

constexpr std::array<std::uint32_t, 256> crc_table = [] {
    std::array<std::uint32_t, 256> table{};
    for (std::uint32_t i = 0; i < table.size(); ++i) {
        std::uint32_t value = i;
        for (int bit = 0; bit < 8; ++bit)
            value = (value & 1) != 0 ? 0xedb88320u ^ value >> 1 : value >> 1;
        table[i] = value;
    }
    return table;
}();

std::uint32_t crc(std::uint32_t value, std::span<const std::byte> bytes) noexcept
{
    for (const std::byte b : bytes)
        value = crc_table[(value ^ static_cast<std::uint32_t>(b)) & 0xff] ^ value >> 8;
    return value;
}

std::uint32_t sum_words(std::uint32_t sum, std::span<const std::byte> bytes) noexcept
{
    for (std::size_t i = 0; i < bytes.size(); ++i)
        sum += static_cast<std::uint32_t>(bytes[i]) << (i % 2 == 0 ? 8 : 0);
    while (sum >> 16 != 0)
        sum = (sum & 0xffff) + (sum >> 16);
    return sum;
}

bool is_v6(const sockaddr_storage &address) noexcept
{
    return address.ss_family == AF_INET6 &&
           !IN6_IS_ADDR_V4MAPPED(&reinterpret_cast<const sockaddr_in6 &>(address).sin6_addr);
}

std::span<const std::byte> ip_of(const sockaddr_storage &address) noexcept
{
    if (address.ss_family != AF_INET6) {
        const auto &v4 = reinterpret_cast<const sockaddr_in &>(address);
        return {reinterpret_cast<const std::byte *>(&v4.sin_addr), sizeof(v4.sin_addr)};
    }
    const auto &v6 = reinterpret_cast<const sockaddr_in6 &>(address).sin6_addr;
    const auto *bytes = reinterpret_cast<const std::byte *>(&v6);
    return is_v6(address) ? std::span(bytes, sizeof(v6)) : std::span(bytes + 12, 4);
}

// Locally administered; the other bytes are from the end of the IP address.
void put_mac(byte_writer &w, const sockaddr_storage &address) noexcept
{
    const auto ip = ip_of(address);
    w.put(std::uint16_t{0x0200}).put_raw(ip.data() + ip.size() - 4, 4);
}

void put_network(byte_writer &w, const addresses &ends, std::size_t udp_length)
{
    const auto from = ip_of(ends.from);
    const auto to = ip_of(ends.to);
    if (from.size() != 4) {
        w.put(std::uint32_t{6} << 28).put(static_cast<std::uint16_t>(udp_length));
        w.put(static_cast<std::uint8_t>(IPPROTO_UDP)).put(hop_limit);
        w.put_raw(from.data(), from.size()).put_raw(to.data(), to.size());
        return;
    }
    std::array<std::byte, ipv4_size> header{};
    byte_writer ip(header.data());
    ip.put(std::uint16_t{0x4500}).put(static_cast<std::uint16_t>(ipv4_size + udp_length));
    ip.put(std::uint16_t{0}).put(std::uint16_t{0x4000}); // do not fragment
    ip.put(hop_limit).put(static_cast<std::uint8_t>(IPPROTO_UDP)).put(std::uint16_t{0});
    ip.put_raw(from.data(), from.size()).put_raw(to.data(), to.size());
    const auto checksum = static_cast<std::uint16_t>(~sum_words(0, header));
    byte_writer(header.data() + 10).put(checksum);
    w.put_raw(header.data(), header.size());
}

void put_udp_checksum(std::span<std::byte> udp, const addresses &ends)
{
    std::uint32_t sum = sum_words(static_cast<std::uint32_t>(udp.size()) + IPPROTO_UDP, ip_of(ends.from));
    sum = sum_words(sum, ip_of(ends.to));
    const auto checksum = static_cast<std::uint16_t>(~sum_words(sum, udp));
    byte_writer(udp.data() + 6).put(checksum == 0 ? std::uint16_t{0xffff} : checksum);
}

// Computed over the packet from its IP header on; fields that routers may change count as ones.
std::uint32_t invariant_crc(std::span<const std::byte> packet, std::size_t ip_size)
{
    constexpr std::byte ones{0xff};
    std::vector<std::byte> masked(packet.begin(), packet.end());
    if (ip_size == ipv4_size) {
        masked[1] = masked[8] = masked[10] = masked[11] = ones;
    } else {
        masked[0] |= std::byte{0x0f};
        masked[1] = masked[2] = masked[3] = masked[7] = ones;
    }
    masked[ip_size + 6] = masked[ip_size + 7] = ones; // UDP checksum
    masked[ip_size + udp_size + 4] = ones;            // reserved for congestion control
    const std::array<std::byte, 8> no_local_route{ones, ones, ones, ones, ones, ones, ones, ones};
    return ~crc(crc(~0u, no_local_route), masked);
}

constexpr std::byte answer_wanted{0x80};

// Builds the frame from InfiniBand headers in wire format, and sets the pad count in them.
std::vector<std::byte> frame_of(
        const addresses &ends, std::uint32_t dest_qpn, std::span<std::byte> headers, std::span<const std::byte> payload)
{
    constexpr std::byte migrated{0x40};
    const std::size_t padding = (4 - payload.size() % 4) % 4;
    const std::size_t ip_size = ip_of(ends.from).size() == 4 ? ipv4_size : ipv6_size;
    const std::size_t udp_length = udp_size + headers.size() + payload.size() + padding + icrc_size;
    std::vector<std::byte> frame(ethernet_size + ip_size + udp_length);

    byte_writer w(frame.data());
    put_mac(w, ends.to);
    put_mac(w, ends.from);
    w.put(static_cast<std::uint16_t>(ip_size == ipv4_size ? 0x0800 : 0x86dd));
    put_network(w, ends, udp_length);
    w.put(static_cast<std::uint16_t>(ephemeral_port | (dest_qpn & 0x3fff))).put(roce_port);
    w.put(static_cast<std::uint16_t>(udp_length)).put(std::uint16_t{0});
    headers[1] |= migrated | std::byte(padding << 4);
    w.put_raw(headers.data(), headers.size()).put_raw(payload.data(), payload.size());

    const auto from_ip = std::span(frame).subspan(ethernet_size);
    const std::uint32_t icrc = invariant_crc(from_ip.first(from_ip.size() - icrc_size), ip_size);
    for (std::size_t i = 0; i < icrc_size; ++i) // the only number with its low byte first
        frame[frame.size() - icrc_size + i] = static_cast<std::byte>(icrc >> 8 * i);
    if (ip_size == ipv6_size)
        put_udp_checksum(std::span(frame).subspan(ethernet_size + ip_size), ends);
    return frame;
}

} // namespace

std::vector<std::byte> frame_of(const addresses &ends, const packet &header, std::span<const std::byte> payload)
{
    frame_headers headers = encode(header, payload.size());
    const auto of_wire = std::span(headers.bytes).first(headers.size).subspan(length_size);
    if (is_request(header.op) && (is_last(header.op) || is_round_trip(header.op)) && !header.no_ack_req)
        of_wire[8] = answer_wanted;
    return frame_of(ends, header.dest_qpn, of_wire, payload);
}

std::vector<std::byte> frame_of(const addresses &ends, const datagram &header, std::span<const std::byte> payload)
{
    datagram_headers headers = encode(header);
    return frame_of(ends, header.dest_qpn, std::span(headers.bytes).first(headers.size), payload);
}

} // namespace softrdma::trace
