// SPDX-License-Identifier: BSD-3-Clause
#include "transport/udp/udp_port.hpp"
#include "base/or_no_memory.hpp"
#include "base/gid_table.hpp"
#include "base/log.hpp"
#include "transport/udp/udp_message.hpp"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace softrdma
{

constexpr int receive_buffer = 8 << 20; // requested size of the receive buffer, for bursts; the system may grant less
// Limit of other processes on this host that get a ring; further ones use the socket.
constexpr std::size_t max_peers = 256;
// Maximum time that a sender waits for a busy network interface.
constexpr timeval send_limit{.tv_sec = 0, .tv_usec = 10'000};

struct udp_port::arrivals : message_batch<batch, max_datagram> {
};

udp_port::udp_port(int family) noexcept : family_(family) {}

int udp_port::open_at_any_port() // 0 or an errno value
{
    sockaddr_storage any{};
    socklen_t size = end_at(family_, {}, 0, 0, any);
    any.ss_family = static_cast<sa_family_t>(family_);
    auto *address = reinterpret_cast<sockaddr *>(&any);
    reservation_ = unique_fd(socket(family_, SOCK_STREAM | SOCK_CLOEXEC, 0));
    socket_.reset(unique_fd(socket(family_, SOCK_DGRAM | SOCK_CLOEXEC, 0)));
    if (reservation_.get() < 0 || socket_.get() < 0)
        return errno;
    if (family_ == AF_INET6) {
        set_option(reservation_.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
        set_option(socket_.get(), IPPROTO_IPV6, IPV6_V6ONLY, 0);
    }
    if (bind(reservation_.get(), address, size) != 0 || getsockname(reservation_.get(), address, &size) != 0 ||
            bind(socket_.get(), address, size) != 0)
        return errno;
    port_ = ntohs(port_of(any));
    family_ == AF_INET6 ? set_option(socket_.get(), IPPROTO_IPV6, IPV6_RECVPKTINFO, 1)
                        : set_option(socket_.get(), IPPROTO_IP, IP_PKTINFO, 1);
    if (!set_option(socket_.get(), SOL_SOCKET, SO_RCVBUFFORCE, receive_buffer))
        set_option(socket_.get(), SOL_SOCKET, SO_RCVBUF, receive_buffer);
    setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &send_limit, sizeof(send_limit));
    return 0;
}

std::shared_ptr<udp_port> udp_port::open()
{
    constexpr int tries = 16; // another process may use the port for UDP
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
            port->tx_ = std::make_unique<datagram_tx>(port->port_);
            return port->watch() ? port : nullptr;
        }
    }
    log::write(log::level::error, "datagram queue pair: no UDP port: %s", strerror(error));
    return fail_with(nullptr, error);
}

bool udp_port::watch()
{
    const auto self = shared_from_this();
    event_loop &loop = *event_loop::get();
    watch_ = loop.watch(socket_.get(), EPOLLIN, self);
    if (watch_ == 0)
        return false;
    wake_.reset(unique_fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)));
    wake_watch_ = wake_.get() < 0 ? 0 : loop.watch(wake_.get(), EPOLLIN, self);
    if (wake_watch_ == 0)
        return true;
    rings_listener_ = listen_for_rings(port_, self);
    if (rings_listener_ != nullptr)
        loop.watch_memory(self);
    return true;
}

void udp_port::close()
{
    event_loop &loop = *event_loop::get();
    loop.unwatch(watch_);
    loop.unwatch(wake_watch_);
    if (rings_listener_ != nullptr) {
        rings_listener_->close();
        loop.unwatch_memory(*this);
    }
    tx_.reset();
    const lock_guard lock(reading_);
    for (const auto &peer : peers_)
        peer->drop();
    peers_.clear();
}

std::uint32_t udp_port::reserve()
{
    const lock_guard lock(mutex_);
    for (std::uint32_t i = 0; i < numbers; ++i) {
        const std::uint32_t index = (next_ + i) % numbers;
        if (used_[index])
            continue;
        used_[index] = true;
        next_ = index + 1;
        return std::uint32_t{port_} * numbers + index;
    }
    return 0;
}

bool udp_port::release(std::uint32_t number)
{
    const lock_guard lock(mutex_);
    used_[number % numbers] = false;
    return std::ranges::find(used_, true) == used_.end();
}

bool udp_port::send(const datagram &d, const datagram_route &route, std::span<const iovec> payload)
{
    const auto outcome = tx_->send(d, route, payload);
    return outcome == datagram_tx::outcome::elsewhere ? send_packet(d, route, payload)
                                                      : outcome == datagram_tx::outcome::done;
}

bool udp_port::send_packet(const datagram &d, const datagram_route &route, std::span<const iovec> payload) const
{
    constexpr std::size_t max_segments = 17; // the headers, and the maximum number of segments of a request
    datagram_headers headers = encode(d);
    std::array<iovec, max_segments> segments;
    segments[0] = {headers.bytes.data(), headers.size};
    const std::size_t count = std::min(payload.size(), max_segments - 1);
    std::copy_n(payload.begin(), count, segments.begin() + 1);
    sockaddr_storage to;
    control_data control{};
    msghdr message = message_of(std::span(segments).first(count + 1), control, &to);
    message.msg_namelen =
            end_at(family_, route.destination, route.interface, static_cast<std::uint16_t>(d.dest_qpn / numbers), to);
    put_route(message, family_, route);
    if (sendmsg(socket_.get(), &message, MSG_NOSIGNAL) >= 0)
        return true;
    const int error = errno;
    if (log::is_on(config::log_word::info))
        log::write(config::log_word::info, "datagram for queue pair %u: dropped: %s", d.dest_qpn, strerror(error));
    return error != EFAULT;
}

poll_result udp_port::ready(std::uint32_t)
{
    if (!reading_.try_lock())
        return poll_result::busy;
    const lock_guard lock(reading_, std::adopt_lock);
    std::uint64_t events = 0;
    [[maybe_unused]] const ssize_t got = read(wake_.get(), &events, sizeof(events));
    const bool any = empty_rings();
    return receive_packets() || any ? poll_result::progress : poll_result::idle;
}

poll_result udp_port::poll()
{
    if (!reading_.try_lock())
        return poll_result::busy;
    const lock_guard lock(reading_, std::adopt_lock);
    return empty_rings() || receive_packets() ? poll_result::progress : poll_result::idle;
}

poll_result udp_port::poll_memory()
{
    if (!reading_.try_lock())
        return poll_result::busy;
    const lock_guard lock(reading_, std::adopt_lock);
    return empty_rings() ? poll_result::progress : poll_result::idle;
}

bool udp_port::about_to_sleep()
{
    if (!reading_.try_lock())
        return true;
    const lock_guard lock(reading_, std::adopt_lock);
    bool any = false;
    for (const auto &peer : peers_) {
        peer->ring->fall_asleep();
        any = peer->ring->waiting() || any;
    }
    return any;
}

bool udp_port::add(const std::shared_ptr<datagram_peer> &peer)
{
    const lock_guard lock(reading_);
    if (peers_.size() == max_peers)
        return false;
    peers_.push_back(peer);
    event_loop::get()->expect(shared_from_this());
    return true;
}

void udp_port::remove(datagram_peer &peer)
{
    const lock_guard lock(reading_);
    bool any = false;
    empty(peer, SIZE_MAX, any);
    std::erase_if(peers_, [&](const auto &other) { return other.get() == &peer; });
}

bool udp_port::empty_rings()
{
    bool any = false;
    for (std::size_t i = 0; i < peers_.size();) {
        if (empty(*peers_[i], batch, any)) {
            ++i;
            continue;
        }
        peers_[i]->drop();
        peers_.erase(peers_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    return any;
}

// Receives at most `max_count` datagrams: the program posts receives in between. Returns false if the ring broke.
bool udp_port::empty(datagram_peer &peer, std::size_t max_count, bool &any)
{
    datagram d;
    network_address source;
    network_address destination;
    if (!peer.has_sent) {
        if (!peer.ring->waiting())
            return true;
        peer.has_sent = true;
        while (receive_packets()) // its process used the socket before it sent through the ring
            ;
    }
    for (std::size_t count = 0; count < max_count; ++count) {
        const auto found = peer.ring->take(d, source, destination);
        if (found != ring_reader::outcome::datagram)
            return found == ring_reader::outcome::nothing;
        any = true;
        if (peer.is_of_this_host(source, destination))
            deliver(d, header_of(source, destination, packet_size(d)));
    }
    return true;
}

bool udp_port::receive_packets()
{
    arrivals &a = *arrivals_;
    const std::size_t count = a.receive(socket_.get(), batch);
    for (std::size_t i = 0; i < count; ++i) {
        if (a.is_whole(i)) // a longer datagram is invalid
            forward(a.bytes(i), a.header(i));
    }
    return count > 0;
}

// Accepts a datagram only from the port in its sender's number: no other process can impersonate that queue pair.
void udp_port::forward(std::span<const std::byte> bytes, msghdr &message)
{
    datagram d;
    network_address source;
    network_address destination;
    std::uint16_t port = 0;
    find_source(*static_cast<const sockaddr_storage *>(message.msg_name), source, port);
    if (!decode(bytes, d) || d.dest_qpn / numbers != port_ || d.source_qpn / numbers != port ||
            !find_destination(message, destination))
        return;
    deliver(d, header_of(source, destination, packet_size(d)));
}

namespace
{

// The ports of this process: opened when the numbers of the others are used up, closed with their last number.
struct open_ports {
    ordered_mutex lock{lock_level::sending};
    std::vector<std::shared_ptr<udp_port>> list GUARDED_BY(lock);
};

class udp_path final : public datagram_path
{
public:
    udp_path(std::shared_ptr<udp_port> port, std::uint32_t number) : port_(std::move(port)), number_(number) {}
    ~udp_path() override
    {
        open_ports &all = process::instance<open_ports>();
        {
            const lock_guard guard(all.lock);
            if (!port_->release(number_))
                return;
            std::erase(all.list, port_);
        }
        port_->close(); // takes locks that precede that one
    }

    std::uint32_t number() const noexcept override { return number_; }
    void listen(std::shared_ptr<datagram_receiver> receiver) override { port_->listen(number_, std::move(receiver)); }
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
    open_ports &all = process::instance<open_ports>();
    const lock_guard guard(all.lock);
    for (const auto &port : all.list) {
        if (const std::uint32_t number = port->reserve(); number != 0)
            return std::make_unique<udp_path>(port, number);
    }
    auto port = udp_port::open();
    if (port == nullptr)
        return nullptr;
    all.list.push_back(port);
    return std::make_unique<udp_path>(port, port->reserve());
}

} // namespace softrdma
