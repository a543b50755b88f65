// SPDX-License-Identifier: BSD-3-Clause
#include "transport/udp/udp_port.hpp"
#include "base/gid_table.hpp"
#include "base/log.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <vector>

namespace softrdma::net
{

namespace detail
{

union control_data {
    cmsghdr header;
    std::array<std::byte, CMSG_SPACE(sizeof(in6_pktinfo))> v6;
    std::array<std::byte, CMSG_SPACE(sizeof(in_pktinfo))> v4;
};

} // namespace detail

namespace
{

using detail::control_data;

// What a burst may fill before somebody reads it; the system may allow less.
constexpr int receive_buffer = 8 << 20;
// How long a sender waits for a network interface that takes no more.
constexpr timeval send_limit{.tv_sec = 0, .tv_usec = 10'000};

template<typename T>
void set(int fd, int level, int option, const T &value)
{
    setsockopt(fd, level, option, &value, sizeof(value));
}

ibv_gid gid_of(const network_address &address) noexcept
{
    ibv_gid gid;
    memcpy(gid.raw, address.data(), address.size());
    return gid;
}

network_address address_of(const in6_addr &from) noexcept
{
    network_address address;
    memcpy(address.data(), &from, sizeof(from));
    return address;
}

network_address address_of(const in_addr &from) noexcept
{
    sockaddr_storage v4{};
    v4.ss_family = AF_INET;
    reinterpret_cast<sockaddr_in &>(v4).sin_addr = from;
    network_address address;
    memcpy(address.data(), net::gid_of(v4).raw, address.size());
    return address;
}

// As a socket of that family takes it: one of IPv6 takes IPv4 addresses mapped.
socklen_t end_at(int family, const network_address &address, unsigned interface, std::uint16_t port,
        sockaddr_storage &end) noexcept
{
    end = net::address_of(gid_of(address), interface);
    if (family == AF_INET6 && end.ss_family == AF_INET) {
        sockaddr_in6 mapped{};
        mapped.sin6_family = AF_INET6;
        memcpy(&mapped.sin6_addr, address.data(), address.size());
        memcpy(&end, &mapped, sizeof(mapped));
    }
    port_of(end) = htons(port);
    return family == AF_INET6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
}

template<typename Info>
void put_control(msghdr &message, int level, int type, const Info &info) noexcept
{
    cmsghdr *header = CMSG_FIRSTHDR(&message);
    header->cmsg_level = level;
    header->cmsg_type = type;
    header->cmsg_len = CMSG_LEN(sizeof(info));
    memcpy(CMSG_DATA(header), &info, sizeof(info));
    message.msg_controllen = CMSG_SPACE(sizeof(info));
}

void put_source(msghdr &message, int family, const datagram_route &route) noexcept
{
    if (family == AF_INET6) {
        in6_pktinfo info{};
        memcpy(&info.ipi6_addr, route.source.data(), route.source.size());
        if (IN6_IS_ADDR_LINKLOCAL(&info.ipi6_addr))
            info.ipi6_ifindex = route.interface;
        return put_control(message, IPPROTO_IPV6, IPV6_PKTINFO, info);
    }
    in_pktinfo info{};
    memcpy(&info.ipi_spec_dst, route.source.data() + route.source.size() - sizeof(in_addr), sizeof(in_addr));
    put_control(message, IPPROTO_IP, IP_PKTINFO, info);
}

// False if the kernel did not say to which address it was sent.
bool find_destination(msghdr &message, network_address &destination) noexcept
{
    for (cmsghdr *c = CMSG_FIRSTHDR(&message); c != nullptr; c = CMSG_NXTHDR(&message, c)) {
        if (c->cmsg_level == IPPROTO_IPV6 && c->cmsg_type == IPV6_PKTINFO) {
            in6_pktinfo info;
            memcpy(&info, CMSG_DATA(c), sizeof(info));
            destination = address_of(info.ipi6_addr);
            return true;
        }
        if (c->cmsg_level == IPPROTO_IP && c->cmsg_type == IP_PKTINFO) {
            in_pktinfo info;
            memcpy(&info, CMSG_DATA(c), sizeof(info));
            destination = address_of(info.ipi_addr);
            return true;
        }
    }
    return false;
}

void find_source(const sockaddr_storage &from, network_address &source, std::uint16_t &port) noexcept
{
    if (from.ss_family == AF_INET6) {
        const auto &v6 = reinterpret_cast<const sockaddr_in6 &>(from);
        source = address_of(v6.sin6_addr);
        port = ntohs(v6.sin6_port);
    } else {
        const auto &v4 = reinterpret_cast<const sockaddr_in &>(from);
        source = address_of(v4.sin_addr);
        port = ntohs(v4.sin_port);
    }
}

} // namespace

// What one call of the kernel fills.
struct udp_port::arrivals {
    arrivals() noexcept
    {
        for (std::size_t i = 0; i < batch; ++i)
            pieces[i] = {bytes[i].data(), bytes[i].size()};
    }
    void prepare() noexcept
    {
        for (std::size_t i = 0; i < batch; ++i) {
            messages[i].msg_hdr = {.msg_name = &from[i],
                    .msg_namelen = sizeof(from[i]),
                    .msg_iov = &pieces[i],
                    .msg_iovlen = 1,
                    .msg_control = &control[i],
                    .msg_controllen = sizeof(control[i]),
                    .msg_flags = 0};
        }
    }

    std::array<std::array<std::byte, max_datagram>, batch> bytes;
    std::array<iovec, batch> pieces;
    std::array<sockaddr_storage, batch> from;
    std::array<control_data, batch> control;
    std::array<mmsghdr, batch> messages;
};

udp_port::udp_port(int family) noexcept : family_(family) {}

udp_port::~udp_port()
{
    if (kept_ >= 0)
        ::close(kept_);
    if (socket_ >= 0 && birth_.is_here())
        ::close(socket_);
}

// 0 or an errno value.
int udp_port::open_at_any_port()
{
    const int v6_only = 0;
    sockaddr_storage any{};
    socklen_t size = end_at(family_, {}, 0, 0, any);
    any.ss_family = static_cast<sa_family_t>(family_);
    auto *address = reinterpret_cast<sockaddr *>(&any);
    kept_ = socket(family_, SOCK_STREAM | SOCK_CLOEXEC, 0);
    socket_ = socket(family_, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (kept_ < 0 || socket_ < 0)
        return errno;
    if (family_ == AF_INET6) {
        set(kept_, IPPROTO_IPV6, IPV6_V6ONLY, v6_only);
        set(socket_, IPPROTO_IPV6, IPV6_V6ONLY, v6_only);
    }
    if (bind(kept_, address, size) != 0 || getsockname(kept_, address, &size) != 0 || bind(socket_, address, size) != 0)
        return errno;
    port_ = ntohs(port_of(any));
    const int on = 1;
    family_ == AF_INET6 ? set(socket_, IPPROTO_IPV6, IPV6_RECVPKTINFO, on) : set(socket_, IPPROTO_IP, IP_PKTINFO, on);
    if (setsockopt(socket_, SOL_SOCKET, SO_RCVBUFFORCE, &receive_buffer, sizeof(receive_buffer)) != 0)
        set(socket_, SOL_SOCKET, SO_RCVBUF, receive_buffer);
    set(socket_, SOL_SOCKET, SO_SNDTIMEO, send_limit);
    return 0;
}

std::shared_ptr<udp_port> udp_port::open()
{
    constexpr int tries = 16; // somebody else may have the port for UDP
    if (event_loop::get() == nullptr)
        return nullptr;
    int error = 0;
    for (const int family : {AF_INET6, AF_INET}) {
        for (int i = 0; i < tries; ++i) {
            auto port = std::make_shared<udp_port>(family);
            error = port->open_at_any_port();
            if (error == EADDRINUSE)
                continue;
            if (error != 0)
                break;
            port->arrivals_ = std::make_unique<arrivals>();
            port->watch_ = event_loop::get()->watch(port->socket_, EPOLLIN, port);
            return port->watch_ == 0 ? nullptr : port;
        }
    }
    errno = error;
    return nullptr;
}

void udp_port::close()
{
    event_loop::get()->unwatch(watch_);
}

std::uint32_t udp_port::reserve()
{
    const std::lock_guard lock(mutex_);
    for (std::uint32_t i = 0; i < numbers; ++i) {
        const std::uint32_t index = (next_ + i) % numbers;
        if (slots_[index].used)
            continue;
        slots_[index].used = true;
        next_ = index + 1;
        return std::uint32_t{port_} * numbers + index;
    }
    return 0;
}

bool udp_port::release(std::uint32_t number)
{
    const std::lock_guard lock(mutex_);
    slots_[number % numbers] = {};
    return std::none_of(slots_.begin(), slots_.end(), [](const slot &s) { return s.used; });
}

void udp_port::listen(std::uint32_t number, std::weak_ptr<datagram_receiver> receiver)
{
    const std::lock_guard lock(mutex_);
    slots_[number % numbers].receiver = std::move(receiver);
}

bool udp_port::send(const datagram &d, const datagram_route &route, std::span<const iovec> payload) const
{
    constexpr std::size_t most = 17; // the headers, and as many pieces as a request may have
    datagram_headers headers = encode(d);
    std::array<iovec, most> pieces;
    pieces[0] = {headers.bytes.data(), headers.size};
    const std::size_t count = std::min(payload.size(), most - 1);
    std::copy_n(payload.begin(), count, pieces.begin() + 1);
    sockaddr_storage to;
    control_data control{};
    msghdr message{};
    message.msg_namelen =
            end_at(family_, route.destination, route.interface, static_cast<std::uint16_t>(d.dest_qpn / numbers), to);
    message.msg_name = &to;
    message.msg_iov = pieces.data();
    message.msg_iovlen = count + 1;
    message.msg_control = &control;
    message.msg_controllen = sizeof(control);
    put_source(message, family_, route);
    if (sendmsg(socket_, &message, MSG_NOSIGNAL) >= 0)
        return true;
    const int error = errno;
    if (log::is_on(config::log_word::info))
        log::write(config::log_word::info, "a datagram for queue pair %u is lost: %s", d.dest_qpn, strerror(error));
    return error != EFAULT;
}

finding udp_port::ready(std::uint32_t)
{
    return receive();
}

finding udp_port::receive()
{
    const std::unique_lock lock(reading_, std::try_to_lock);
    if (!lock)
        return finding::taken;
    arrivals &a = *arrivals_;
    a.prepare();
    const int count = recvmmsg(socket_, a.messages.data(), batch, MSG_DONTWAIT, nullptr);
    for (int i = 0; i < count; ++i) {
        mmsghdr &m = a.messages[static_cast<std::size_t>(i)];
        if ((m.msg_hdr.msg_flags & MSG_TRUNC) == 0) // else it is longer than any that is meant for us
            hand_on({static_cast<const std::byte *>(m.msg_hdr.msg_iov->iov_base), m.msg_len}, m.msg_hdr);
    }
    return count > 0 ? finding::something : finding::nothing;
}

// A datagram counts if it comes from the port that its sender's number names: so no process of the sender's host passes
// for another one's queue pair.
void udp_port::hand_on(std::span<const std::byte> bytes, msghdr &message)
{
    datagram d;
    network_address source;
    network_address destination;
    std::uint16_t port = 0;
    find_source(*static_cast<const sockaddr_storage *>(message.msg_name), source, port);
    if (!decode(bytes, d) || d.dest_qpn / numbers != port_ || d.source_qpn / numbers != port ||
            !find_destination(message, destination))
        return;
    std::shared_ptr<datagram_receiver> receiver;
    {
        const std::lock_guard lock(mutex_);
        receiver = slots_[d.dest_qpn % numbers].receiver.lock();
    }
    if (receiver != nullptr)
        receiver->arrived(d, header_of(source, destination, bytes.size()));
}

namespace
{

// The ports of this process: one is opened when the numbers of the others are used up, and closed with its last number.
struct open_ports {
    std::mutex mutex;
    std::vector<std::shared_ptr<udp_port>> list;
};

open_ports &ports()
{
    static constinit process::single<open_ports> p;
    return p.get();
}

class numbered_path final : public datagram_path
{
public:
    numbered_path(std::shared_ptr<udp_port> port, std::uint32_t number) : port_(std::move(port)), number_(number) {}
    ~numbered_path() override
    {
        open_ports &all = ports();
        const std::lock_guard lock(all.mutex);
        if (!port_->release(number_))
            return;
        port_->close();
        std::erase(all.list, port_);
    }

    std::uint32_t number() const noexcept override { return number_; }
    void listen(std::weak_ptr<datagram_receiver> receiver) override { port_->listen(number_, std::move(receiver)); }
    bool send(const datagram &d, const datagram_route &route, std::span<const iovec> payload) override
    {
        return port_->send(d, route, payload);
    }

private:
    const std::shared_ptr<udp_port> port_;
    const std::uint32_t number_;
};

} // namespace

std::unique_ptr<datagram_path> open_datagram_path()
{
    open_ports &all = ports();
    const std::lock_guard lock(all.mutex);
    for (const auto &port : all.list) {
        if (const std::uint32_t number = port->reserve(); number != 0)
            return std::make_unique<numbered_path>(port, number);
    }
    auto port = udp_port::open();
    if (port == nullptr)
        return nullptr;
    all.list.push_back(port);
    return std::make_unique<numbered_path>(port, port->reserve());
}

} // namespace softrdma::net
