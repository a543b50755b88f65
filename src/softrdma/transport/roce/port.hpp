// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/sleeping_lock.hpp"
#include "base/spin_lock.hpp"
#include "progress/event_loop.hpp"
#include "transport/datagram_path.hpp"
#include "transport/roce/packet_socket.hpp"
#include "transport/roce/protocol.hpp"
#include "transport/roce/shared_sockets.hpp"
#include "wire/roce.hpp"

#include <map>
#include <unordered_map>

struct msghdr;

namespace softrdma::roce
{

class connection;

// The socket of this process on UDP port 4791, and its queue pair numbers with their connections or receivers.
class port final : public event_handler, public std::enable_shared_from_this<port>
{
public:
    // Opens the port once, within two seconds. The caller must not hold a lock. Returns NULL and sets errno on error.
    static std::shared_ptr<port> open();
    // Returns NULL if it is not open.
    static std::shared_ptr<port> get();
    explicit port(std::shared_ptr<shared_sockets> sockets);
    ~port() override;

    // Numbers are unique on the host. Returns 0 if none is left.
    std::uint32_t reserve_number();
    std::shared_ptr<connection> release_number(std::uint32_t number);
    bool has(std::uint32_t number)
    {
        const lock_guard lock(mutex_);
        return connections_.contains(number);
    }

    // Packets for that queue pair go to the connection; NULL drops them. Returns the former connection.
    std::shared_ptr<connection> set(std::uint32_t number, std::shared_ptr<connection> c);
    std::shared_ptr<connection> find(std::uint32_t number);

    // Datagrams for that queue pair go to the receiver; NULL drops them. The rules of datagram_path::listen() apply.
    void listen(std::uint32_t number, std::shared_ptr<datagram_receiver> receiver);

    // Returns the socket for packets between these queue pairs, always the same. It is open as long as the port.
    packet_socket source_of(const datagram_route &route, std::uint32_t src_qpn, std::uint32_t dest_qpn);
    // Sends packets of a connection as packet_socket::send(), or drops them if the network accepts no more. Returns
    // false if the kernel cannot cut a message into packets.
    bool send(const packet_socket &from, const datagram_route &route, std::uint32_t dest_qpn,
            std::span<const outgoing_packet> packets, crc_rule rule = crc_rule::standard);
    // Sends a datagram, or drops it in the same way.
    void send(const datagram_route &route, const datagram &d, std::span<const std::byte> payload);
    const shared_sockets &sockets() const noexcept { return *sockets_; }

    poll_result ready(std::uint32_t events) override;
    poll_result poll() override { return ready(0); }

private:
    static constexpr std::size_t batch = 32;
    struct arrivals;

    struct source {
        unique_fd fd;
        std::uint16_t number;
    };

    bool watch()
    {
        watch_ = event_loop::get()->watch(sockets_->socket(), EPOLLIN, shared_from_this());
        return watch_ != 0;
    }
    std::vector<source> open_sources(const datagram_route &route, std::uint32_t first) const;
    bool receive() REQUIRES(reading_);
    void accept(std::span<const std::byte> bytes, msghdr &message) REQUIRES(reading_);
    void deliver(const packet &p, const udp_flow &flow, std::span<const std::byte> bytes) REQUIRES(reading_);
    void deliver(const datagram &d, const udp_flow &flow, std::span<const std::byte> bytes) REQUIRES(reading_);

    const std::shared_ptr<shared_sockets> sockets_;
    event_loop::watch_id watch_ = 0;
    sleeping_lock reading_{lock_level::reading};
    const std::unique_ptr<arrivals> arrivals_ PT_GUARDED_BY(reading_);
    std::vector<std::shared_ptr<connection>> served_ GUARDED_BY(
            reading_); // connections that the current batch has packets for
    std::unordered_map<std::uint32_t, std::shared_ptr<datagram_receiver>> receivers_ GUARDED_BY(reading_);
    spin_lock mutex_{lock_level::tables};
    std::uint32_t next_ GUARDED_BY(mutex_); // next number to try: delays the reuse of released ones
    std::map<network_address, std::vector<source>> sources_ GUARDED_BY(mutex_); // keys: local addresses
    std::unordered_map<std::uint32_t, std::shared_ptr<connection>> connections_ GUARDED_BY(mutex_); // keys: numbers
};

// Largest path MTU for packets that the interface with that local address sends; 0 if it is too small.
std::uint32_t max_mtu(unsigned interface);

} // namespace softrdma::roce
