// SPDX-License-Identifier: BSD-3-Clause
#include "trace/roce.hpp"
#include "wire/roce.hpp"

#include <netinet/in.h>

namespace softrdma::trace
{

namespace
{

constexpr std::size_t ethernet_size = 14;
constexpr std::uint16_t ephemeral_port = 0xc000;

// Locally administered; the other bytes are from the end of the IP address.
void put_mac(byte_writer &w, const network_address &address) noexcept
{
    w.put(std::uint16_t{0x0200}).put_raw(address.data() + address.size() - 4, 4);
}

void put_udp_checksum(std::span<std::byte> udp, const addresses &ends)
{
    std::uint32_t sum = roce::sum_words(static_cast<std::uint32_t>(udp.size()) + IPPROTO_UDP, ends.from);
    sum = roce::sum_words(sum, ends.to);
    const auto checksum = static_cast<std::uint16_t>(~roce::sum_words(sum, udp));
    byte_writer(udp.data() + 6).put(checksum == 0 ? std::uint16_t{0xffff} : checksum);
}

std::vector<std::byte> frame_of(const addresses &ends, std::uint32_t dest_qpn, const roce::transport_headers &headers,
        std::span<const std::byte> payload)
{
    const roce::udp_flow flow{ends.from, ends.to, static_cast<std::uint16_t>(ephemeral_port | (dest_qpn & 0x3fff))};
    const std::size_t size = headers.size + payload.size() + headers.padding;
    const roce::network_headers network = encode(flow, roce::udp_size + size + sizeof(roce::invariant_crc));
    const bool is_v4 = network.ip_size == roce::ipv4_size;
    std::vector<std::byte> frame(ethernet_size + network.size + size + sizeof(roce::invariant_crc));

    byte_writer w(frame.data());
    put_mac(w, ends.to);
    put_mac(w, ends.from);
    w.put(static_cast<std::uint16_t>(is_v4 ? 0x0800 : 0x86dd));
    w.put_raw(network.bytes.data(), network.size);
    w.put_raw(headers.bytes.data(), headers.size).put_raw(payload.data(), payload.size());

    const std::span from_ip = std::span(frame).subspan(ethernet_size);
    const roce::invariant_crc crc = crc_of(flow, from_ip.subspan(network.size, size));
    byte_writer(from_ip.data() + network.size + size).put_raw(crc.data(), crc.size());
    if (is_v4)
        roce::put_ip_checksum(from_ip.first(network.ip_size));
    else
        put_udp_checksum(from_ip.subspan(network.ip_size), ends);
    return frame;
}

} // namespace

std::vector<std::byte> frame_of(const addresses &ends, const packet &header, std::span<const std::byte> payload)
{
    return frame_of(ends, header.dest_qpn, roce::encode(header, payload.size()), payload);
}

std::vector<std::byte> frame_of(const addresses &ends, const datagram &header, std::span<const std::byte> payload)
{
    return frame_of(ends, header.dest_qpn, roce::encode(header, payload.size()), payload);
}

} // namespace softrdma::trace
