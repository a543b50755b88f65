// SPDX-License-Identifier: BSD-3-Clause
#include "transport/roce/packet_socket.hpp"
#include "transport/udp/udp_message.hpp"

#include <algorithm>
#include <cerrno>

namespace softrdma::roce
{

int packet_socket::send(
        const datagram_route &route, std::span<const outgoing_packet> packets, crc_rule rule) const noexcept
{
    constexpr std::size_t max_padding = 3;
    std::array<std::array<std::byte, max_padding + sizeof(invariant_crc)>, max_packets> ends;
    std::array<iovec, 3 * max_packets> parts;
    auto add = [at = parts.begin()](const std::byte *bytes, std::size_t size) mutable {
        *at++ = {const_cast<std::byte *>(bytes), size};
    };
    const udp_flow flow{route.source, route.destination, port};
    for (std::size_t i = 0; i < packets.size(); ++i) {
        const auto &[headers, payload] = packets[i];
        const invariant_crc crc = crc_of(
                flow, std::span(headers.bytes).first(headers.size), payload, rule, static_cast<std::uint16_t>(i));
        std::byte *const end = std::fill_n(ends[i].data(), headers.padding, std::byte{0});
        std::ranges::copy(crc, end);
        add(headers.bytes.data(), headers.size);
        add(payload.data(), payload.size());
        add(ends[i].data(), headers.padding + crc.size());
    }
    std::span<iovec> sent = std::span(parts).first(3 * packets.size());
    // A short packet is copied: it takes the kernel longer to read three parts.
    std::array<std::byte, 256> whole;
    if (packets.size() == 1 && packets.front().size() <= whole.size()) {
        std::byte *end = whole.data();
        for (const iovec &part : sent)
            end = std::copy_n(static_cast<const std::byte *>(part.iov_base), part.iov_len, end);
        sent = sent.first(1);
        sent.front() = {whole.data(), static_cast<std::size_t>(end - whole.data())};
    }
    sockaddr_storage to;
    control_data control;
    msghdr message = message_of(sent, control, &to);
    message.msg_namelen = end_at(family, route.destination, route.interface, udp_port, to);
    put_route(message, family, route, !is_bound);
    if (packets.size() > 1)
        put_segment_size(message, static_cast<std::uint16_t>(packets.front().size()));
    return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0 ? 0 : errno;
}

} // namespace softrdma::roce
