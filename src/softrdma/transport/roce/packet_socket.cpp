// SPDX-License-Identifier: BSD-3-Clause
#include "transport/roce/packet_socket.hpp"
#include "transport/udp/udp_message.hpp"

#include <algorithm>
#include <cerrno>

namespace softrdma::roce
{

int packet_socket::send(const datagram_route &route, const transport_headers &headers,
        std::span<const std::byte> payload, crc_rule rule) const noexcept
{
    std::array<std::byte, max_path_mtu + max_overhead> bytes;
    auto *end = std::copy_n(headers.bytes.begin(), headers.size, bytes.data());
    end = std::copy(payload.begin(), payload.end(), end);
    end = std::fill_n(end, headers.padding, std::byte{0});
    const invariant_crc crc = crc_of({route.source, route.destination, port}, {bytes.data(), end}, rule);
    end = std::copy(crc.begin(), crc.end(), end);
    iovec segment{bytes.data(), static_cast<std::size_t>(end - bytes.data())};
    sockaddr_storage to;
    control_data control{};
    msghdr message = message_of({&segment, 1}, control, &to);
    message.msg_namelen = end_at(family, route.destination, route.interface, udp_port, to);
    put_route(message, family, route);
    return sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT) >= 0 ? 0 : errno;
}

} // namespace softrdma::roce
