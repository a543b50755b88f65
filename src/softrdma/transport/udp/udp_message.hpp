// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/local_socket.hpp"
#include "transport/datagram_path.hpp"

#include <array>
#include <netinet/in.h>
#include <span>
#include <sys/socket.h>
#include <sys/uio.h>

namespace softrdma
{

// Ancillary data of a UDP packet, sent to or received from the kernel: address, traffic class, and size of segments.
struct control_data {
    alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(in6_pktinfo)) + 2 * CMSG_SPACE(sizeof(int))> bytes;
};

// Buffers for messages of at most `Size` bytes that one call receives.
template<std::size_t Count, std::size_t Size>
class message_batch
{
public:
    message_batch() noexcept
    {
        for (std::size_t i = 0; i < Count; ++i)
            segments_[i] = {bytes_[i].data(), Size};
    }
    std::size_t receive(int socket, std::size_t count) noexcept // returns the number of messages, at most `count`
    {
        for (std::size_t i = 0; i < count; ++i)
            messages_[i].msg_hdr = message_of({&segments_[i], 1}, control_[i], &from_[i]);
        const int n = recvmmsg(socket, messages_.data(), static_cast<unsigned>(count), MSG_DONTWAIT, nullptr);
        return n < 0 ? 0 : static_cast<std::size_t>(n);
    }
    bool is_whole(std::size_t i) const noexcept { return (messages_[i].msg_hdr.msg_flags & MSG_TRUNC) == 0; }
    std::span<const std::byte> bytes(std::size_t i) const noexcept { return {bytes_[i].data(), messages_[i].msg_len}; }
    msghdr &header(std::size_t i) noexcept { return messages_[i].msg_hdr; }

private:
    std::array<std::array<std::byte, Size>, Count> bytes_;
    std::array<iovec, Count> segments_;
    std::array<sockaddr_storage, Count> from_;
    std::array<control_data, Count> control_;
    std::array<mmsghdr, Count> messages_;
};

// Converts an address to the form that a socket of that family uses: an IPv6 socket uses mapped IPv4 addresses.
socklen_t end_at(int family, const network_address &address, unsigned interface, std::uint16_t port,
        sockaddr_storage &end) noexcept;
// Sets the control data of a packet that a socket of that family sends: its source address unless the socket is bound
// to it, and its traffic class without the bits of ECN, because the device does not react to congestion marks.
void put_route(msghdr &message, int family, const datagram_route &route, bool with_source = true) noexcept;
// Lets the kernel cut the message into packets of that size; the last one may be shorter. Call after put_route().
void put_segment_size(msghdr &message, std::uint16_t bytes) noexcept;
// Returns false if the kernel did not provide the destination address.
bool find_destination(msghdr &message, network_address &destination) noexcept;
void find_source(const sockaddr_storage &from, network_address &source, std::uint16_t &port) noexcept;

} // namespace softrdma
