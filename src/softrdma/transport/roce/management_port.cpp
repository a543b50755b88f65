// SPDX-License-Identifier: BSD-3-Clause
#include "transport/roce/management_port.hpp"
#include "transport/roce/packet_socket.hpp"
#include "transport/udp/udp_message.hpp"
#include "wire/cm_mad.hpp"

#include <cerrno>
#include <cstring>
#include <linux/errqueue.h>
#include <sys/epoll.h>
#include <unistd.h>

namespace softrdma::roce
{

namespace
{

constexpr std::size_t packet_bytes = bth_size + 8 + mad_size + sizeof(invariant_crc);
constexpr unsigned batch = 16; // packets of one call, so that a flood leaves time for other input

// A packet as processes hand it on.
struct letter {
    udp_flow flow;
    std::array<std::byte, packet_bytes> bytes;
};

// Passes on an intact packet; drops all others.
void accept(const udp_flow &flow, std::span<const std::byte> bytes, const mailbox::receiver &to)
{
    management_packet p{.flow = flow, .bytes = bytes, .message = {}};
    if (bytes.size() == packet_bytes && decode_datagram(bytes, p.message) && is_management(p.message) &&
            has_valid_crc(flow, bytes))
        to(p);
}

struct control_space {
    alignas(cmsghdr) std::array<std::byte, CMSG_SPACE(sizeof(ucred))> bytes;
};

struct error_space {
    alignas(cmsghdr) std::array<std::byte,
            CMSG_SPACE(sizeof(in6_pktinfo)) + CMSG_SPACE(sizeof(sock_extended_err) + sizeof(sockaddr_in6))> bytes;
};

// Returns whether a message came back because no process of the host has the port.
bool is_returned(msghdr &message) noexcept
{
    sock_extended_err error{};
    for (cmsghdr *header = CMSG_FIRSTHDR(&message); header != nullptr; header = CMSG_NXTHDR(&message, header)) {
        if ((header->cmsg_level == SOL_IP && header->cmsg_type == IP_RECVERR) ||
                (header->cmsg_level == SOL_IPV6 && header->cmsg_type == IPV6_RECVERR))
            memcpy(&error, CMSG_DATA(header), sizeof(error));
    }
    return error.ee_errno == ECONNREFUSED &&
           (error.ee_origin == SO_EE_ORIGIN_ICMP || error.ee_origin == SO_EE_ORIGIN_ICMP6);
}

} // namespace

std::shared_ptr<mailbox> mailbox::open(const local_address &name, receiver to)
{
    unique_fd fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
    if (fd.get() < 0 || !set_option(fd.get(), SOL_SOCKET, SO_PASSCRED, 1) || bind(fd.get(), name.get(), name.size) != 0)
        return nullptr;
    const int watched = fd.get();
    auto opened = std::make_shared<mailbox>(std::move(fd), std::move(to));
    opened->watch_ = event_loop::get()->watch(watched, EPOLLIN, opened);
    return opened->watch_ != 0 ? opened : nullptr;
}

poll_result mailbox::ready(std::uint32_t)
{
    for (unsigned i = 0; i < batch; ++i) {
        letter l;
        control_space control;
        iovec segment{&l, sizeof(l)};
        msghdr message = message_of({&segment, 1}, control);
        const ssize_t size = recvmsg(socket_.get(), &message, MSG_DONTWAIT);
        if (size < 0)
            return i > 0 ? poll_result::progress : poll_result::idle;
        if (const auto sender = sender_of(message); size == sizeof(l) && sender && sender->uid == geteuid())
            accept(l.flow, l.bytes, to_);
    }
    return poll_result::progress;
}

std::shared_ptr<probe_socket> probe_socket::open(const shared_sockets &sockets, mailbox::receiver returned)
{
    unique_fd fd = sockets.open_other(0);
    sockaddr_storage own{};
    socklen_t size = sizeof(own);
    const bool is_v6 = sockets.family() == AF_INET6;
    if (fd.get() < 0 || !set_option(fd.get(), IPPROTO_IP, IP_RECVERR, 1) ||
            (is_v6 && !set_option(fd.get(), IPPROTO_IPV6, IPV6_RECVERR, 1)) ||
            getsockname(fd.get(), reinterpret_cast<sockaddr *>(&own), &size) != 0)
        return nullptr;
    network_address any;
    std::uint16_t port = 0;
    find_source(own, any, port);
    const int watched = fd.get();
    auto opened = std::make_shared<probe_socket>(std::move(fd), sockets.family(), port, std::move(returned));
    opened->watch_ = event_loop::get()->watch(watched, EPOLLERR, opened);
    return opened->watch_ != 0 ? opened : nullptr;
}

void probe_socket::send(const datagram_route &route, const datagram &d, std::span<const std::byte> payload) noexcept
{
    const packet_socket from{.fd = socket_.get(), .family = family_, .port = port_};
    const outgoing_packet packet{encode(d, payload.size()), payload};
    if (from.send(route, {&packet, 1}) != 0) // possibly with the error of an earlier message
        from.send(route, {&packet, 1});
}

poll_result probe_socket::ready(std::uint32_t)
{
    for (unsigned i = 0; i < batch; ++i) {
        std::array<std::byte, packet_bytes> bytes;
        sockaddr_storage to{}; // destination of the message that came back
        error_space control;
        iovec segment{bytes.data(), bytes.size()};
        msghdr message = message_of({&segment, 1}, control, &to);
        const ssize_t size = recvmsg(socket_.get(), &message, MSG_ERRQUEUE | MSG_DONTWAIT);
        if (size < 0) {
            int error = 0;
            socklen_t error_size = sizeof(error);
            getsockopt(socket_.get(), SOL_SOCKET, SO_ERROR, &error, &error_size); // one that has no message
            return i > 0 ? poll_result::progress : poll_result::idle;
        }
        udp_flow flow{};
        find_source(to, flow.destination, flow.source_port);
        management_packet p{
                .flow = flow, .bytes = std::span(bytes).first(static_cast<std::size_t>(size)), .message = {}};
        if (is_returned(message) && decode_datagram(p.bytes, p.message) && is_management(p.message))
            returned_(p);
    }
    return poll_result::progress;
}

std::shared_ptr<management_port> management_port::open(
        std::shared_ptr<port> through, mailbox::receiver to, mailbox::receiver returned)
{
    const int watched = through->sockets().management_socket();
    auto opened = std::make_shared<management_port>(std::move(through), std::move(to));
    opened->probes_ = probe_socket::open(opened->port_->sockets(), std::move(returned));
    if (opened->probes_ == nullptr)
        return nullptr;
    return event_loop::get()->watch(watched, EPOLLIN, opened) != 0 ? opened : nullptr;
}

management_port::~management_port()
{
    if (probes_ != nullptr)
        probes_->close();
}

bool management_port::hand_on(const management_packet &p, const local_address &to) noexcept
{
    letter l{.flow = p.flow, .bytes = {}};
    std::copy(p.bytes.begin(), p.bytes.end(), l.bytes.begin());
    return sendto(outgoing_.get(), &l, sizeof(l), MSG_DONTWAIT | MSG_NOSIGNAL, to.get(), to.size) >= 0 ||
           errno != ECONNREFUSED;
}

poll_result management_port::ready(std::uint32_t)
{
    for (unsigned i = 0; i < batch; ++i) {
        std::array<std::byte, packet_bytes + 1> bytes; // a longer packet is invalid
        sockaddr_storage from;
        control_data control;
        iovec segment{bytes.data(), bytes.size()};
        msghdr message = message_of({&segment, 1}, control, &from);
        const ssize_t size = recvmsg(port_->sockets().management_socket(), &message, MSG_DONTWAIT);
        if (size < 0)
            return i > 0 ? poll_result::progress : poll_result::idle;
        udp_flow flow{};
        find_source(from, flow.source, flow.source_port);
        if (find_destination(message, flow.destination))
            accept(flow, std::span(bytes).first(static_cast<std::size_t>(size)), to_);
    }
    return poll_result::progress;
}

} // namespace softrdma::roce
