// SPDX-License-Identifier: BSD-3-Clause
#include "transport/roce/port.hpp"
#include "base/config.hpp"
#include "base/log.hpp"
#include "base/gid_table.hpp"
#include "transport/roce/connection.hpp"
#include "transport/udp/udp_message.hpp"
#include "wire/cm_mad.hpp"

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <net/if.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/random.h>

namespace softrdma::roce
{

namespace
{

constexpr std::uint32_t numbers = 1u << shared_sockets::lane_shift; // per lane
constexpr std::uint32_t first_source_port = 0xc000;
constexpr std::uint32_t source_ports = 0x4000;

struct open_port {
    ordered_mutex lock{lock_level::sending};
    std::shared_ptr<port> opened GUARDED_BY(lock);
};

void report_dropped(std::uint32_t dest_qpn, int error)
{
    if (log::is_on(log::level::info))
        log::write(log::level::info, "packet for queue pair %u: dropped: %s%s", dest_qpn, strerror(error),
                error == EMSGSIZE ? " (use a smaller path MTU)" : "");
}

open_port &the_port()
{
    static constinit process::single<open_port> one;
    return one.get();
}

} // namespace

struct port::arrivals : message_batch<batch, max_path_mtu + max_overhead> {
    // Number of messages of the next call. The kernel checks the socket once more if fewer have arrived, which delays
    // a single packet, so the number grows only while packets are waiting.
    std::size_t expected = 1;
};

port::port(std::shared_ptr<shared_sockets> sockets)
    : sockets_(std::move(sockets)), arrivals_(std::make_unique<arrivals>())
{
    if (getrandom(&next_, sizeof(next_), 0) != sizeof(next_))
        next_ = 0;
    next_ %= numbers;
}

port::~port() = default;

std::shared_ptr<port> port::get()
{
    open_port &one = the_port();
    const lock_guard guard(one.lock);
    return one.opened;
}

std::shared_ptr<port> port::open()
{
    if (auto opened = get(); opened != nullptr)
        return opened;
    std::string error;
    auto sockets = shared_sockets::open(error);
    if (sockets == nullptr) {
        if (config::is(config::setting::transport, config::transport_word::roce) ||
                config::is(config::setting::roce, config::roce_word::listen))
            fprintf(stderr, "softrdma: UDP port %u: %s\n", unsigned{udp_port}, error.c_str());
        else // the program did not ask for the port
            log::write(log::level::warn, "UDP port %u: %s", unsigned{udp_port}, error.c_str());
        errno = EADDRINUSE;
        return nullptr;
    }
    const auto created = std::make_shared<port>(std::move(sockets));
    open_port &one = the_port();
    const lock_guard guard(one.lock);
    if (one.opened == nullptr && created->watch()) // otherwise another thread was faster
        one.opened = created;
    return one.opened;
}

// Other sockets of the host may use ports of the range, so the process takes free ones.
std::vector<port::source> port::open_sources(const datagram_route &route, std::uint32_t first) const
{
    constexpr std::size_t max_sources = 16;
    constexpr std::uint32_t max_tries = 64;
    std::vector<source> opened;
    for (std::uint32_t at = first; opened.size() < max_sources && at < first + max_tries; ++at) {
        const auto number = static_cast<std::uint16_t>(first_source_port + at % source_ports);
        if (unique_fd fd = sockets_->open_other(number, &route); fd.get() >= 0)
            opened.push_back({.fd = std::move(fd), .number = number});
    }
    return opened;
}

// Selects the socket by a hash that distributes consecutive numbers evenly. It is bound to the local address, because a
// source address in the control data of each packet takes the kernel longer.
packet_socket port::source_of(const datagram_route &route, std::uint32_t src_qpn, std::uint32_t dest_qpn)
{
    constexpr std::uint64_t golden_ratio = 0x9e3779b97f4a7c15;
    const packet_socket shared{.fd = sockets_->socket(), .family = sockets_->family(), .port = udp_port};
    if (dest_qpn == management_qpn || !config::is(config::setting::roce_source_port, config::source_port_word::flow))
        return shared;
    const std::vector<source> *sources = nullptr;
    std::uint32_t first = 0;
    {
        const lock_guard lock(mutex_);
        first = next_;
        if (const auto found = sources_.find(route.source); found != sources_.end())
            sources = &found->second;
    }
    if (sources == nullptr) {
        auto opened = open_sources(route, first);
        const lock_guard lock(mutex_);
        sources = &sources_.try_emplace(route.source, std::move(opened)).first->second; // another thread may be faster
    }
    if (sources->empty())
        return shared;
    const std::uint64_t flow = (std::uint64_t{src_qpn} << 24 | dest_qpn) * golden_ratio >> 32;
    const source &from = (*sources)[flow * sources->size() >> 32];
    return {.fd = from.fd.get(), .family = shared.family, .port = from.number, .is_bound = true};
}

std::uint32_t port::reserve_number()
{
    const lock_guard lock(mutex_);
    for (std::uint32_t tries = 0; tries < numbers; ++tries) {
        next_ = (next_ + 1) % numbers;
        const std::uint32_t number = sockets_->lane() << shared_sockets::lane_shift | next_;
        if (number > 1 && connections_.emplace(number, nullptr).second) // 0 and 1 are the management queue pairs
            return number;
    }
    return 0;
}

std::shared_ptr<connection> port::release_number(std::uint32_t number)
{
    const lock_guard lock(mutex_);
    const auto node = connections_.extract(number);
    return node.empty() ? nullptr : node.mapped();
}

std::shared_ptr<connection> port::set(std::uint32_t number, std::shared_ptr<connection> c)
{
    const lock_guard lock(mutex_);
    if (const auto found = connections_.find(number); found != connections_.end())
        found->second.swap(c);
    return c;
}

std::shared_ptr<connection> port::find(std::uint32_t number)
{
    const lock_guard lock(mutex_);
    const auto found = connections_.find(number);
    return found == connections_.end() ? nullptr : found->second;
}

void port::listen(std::uint32_t number, std::shared_ptr<datagram_receiver> receiver)
{
    const lock_guard lock(reading_);
    if (receiver == nullptr) {
        const auto former = receivers_.extract(number);
        receiver = former.empty() ? nullptr : former.mapped();
    } else {
        receivers_[number].swap(receiver); // the former one is released after the lock
    }
}

bool port::send(const packet_socket &from, const datagram_route &route, std::uint32_t dest_qpn,
        std::span<const outgoing_packet> packets, crc_rule rule)
{
    if (event_loop *loop = event_loop::get(); !loop->expects(*this))
        loop->expect(shared_from_this());
    const int error = from.send(route, packets, rule);
    if (packets.size() > 1 && (error == EIO || error == EINVAL))
        return false;
    if (error != 0)
        report_dropped(dest_qpn, error);
    return true;
}

void port::send(const datagram_route &route, const datagram &d, std::span<const std::byte> payload)
{
    const outgoing_packet packet{encode(d, payload.size()), payload};
    if (const int error = source_of(route, d.source_qpn, d.dest_qpn).send(route, {&packet, 1}); error != 0)
        report_dropped(d.dest_qpn, error);
}

poll_result port::ready(std::uint32_t)
{
    if (!reading_.try_lock())
        return poll_result::busy;
    const lock_guard lock(reading_, std::adopt_lock);
    return receive() ? poll_result::progress : poll_result::idle;
}

bool port::receive()
{
    arrivals &a = *arrivals_;
    const std::size_t count = a.receive(sockets_->socket(), a.expected);
    a.expected = count == a.expected ? std::min(2 * a.expected, batch) : 1;
    for (std::size_t i = 0; i < count; ++i) {
        if (a.is_whole(i)) // a longer packet is invalid
            accept(a.bytes(i), a.header(i));
    }
    for (const auto &c : std::exchange(served_, {}))
        c->received_all();
    return count > 0;
}

void port::accept(std::span<const std::byte> bytes, msghdr &message)
{
    udp_flow flow{};
    find_source(*static_cast<const sockaddr_storage *>(message.msg_name), flow.source, flow.source_port);
    if (!find_destination(message, flow.destination))
        return;
    packet p;
    datagram d;
    if (decode(bytes, p))
        deliver(p, flow, bytes);
    else if (decode_datagram(bytes, d))
        deliver(d, flow, bytes);
}

// Drops packets that do not belong to a connection of this process and its peer's address, and damaged ones.
void port::deliver(const packet &p, const udp_flow &flow, std::span<const std::byte> bytes)
{
    const auto c = find(p.dest_qpn);
    if (c == nullptr || !c->is_between(flow) || !has_valid_crc(flow, bytes))
        return;
    if (std::ranges::find(served_, c) == served_.end())
        served_.push_back(c);
    c->arrived(p);
}

// Drops datagrams that are for no queue pair of this process, and damaged ones. The receiver checks the Q_Key.
void port::deliver(const datagram &d, const udp_flow &flow, std::span<const std::byte> bytes)
{
    const auto found = receivers_.find(d.dest_qpn);
    if (found != receivers_.end() && has_valid_crc(flow, bytes))
        found->second->arrived(d, header_of(flow, bytes.size()));
}

std::uint32_t max_mtu(unsigned interface)
{
    ifreq request{};
    const unique_fd fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    if (if_indextoname(interface, request.ifr_name) == nullptr || ioctl(fd.get(), SIOCGIFMTU, &request) != 0)
        return 0;
    constexpr std::size_t min_path_mtu = 256, overhead = ipv6_size + udp_size + max_overhead;
    const auto mtu = static_cast<std::size_t>(request.ifr_mtu);
    if (mtu < overhead + min_path_mtu)
        return 0;
    return static_cast<std::uint32_t>(std::bit_floor(std::min<std::size_t>(mtu - overhead, max_path_mtu)));
}

} // namespace softrdma::roce
