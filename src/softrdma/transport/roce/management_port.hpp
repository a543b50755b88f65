// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/local_socket.hpp"
#include "transport/roce/port.hpp"

#include <functional>

namespace softrdma::roce
{

struct management_packet {
    udp_flow flow{};
    std::span<const std::byte> bytes; // from the BTH to the invariant CRC
    datagram message;
};

// A local socket through which other processes of the user hand on packets to this one.
class mailbox final : public event_handler, public std::enable_shared_from_this<mailbox>
{
public:
    using receiver = std::function<void(const management_packet &)>;

    // Returns NULL and sets errno on error: EADDRINUSE if another process has the name.
    static std::shared_ptr<mailbox> open(const local_address &name, receiver to);
    mailbox(unique_fd socket, receiver to) : socket_(std::move(socket)), to_(std::move(to)) {}
    void close() { event_loop::get()->unwatch(watch_); } // must be called before the last reference is dropped

    poll_result ready(std::uint32_t events) override;

private:
    const unique_fd socket_;
    const receiver to_;
    event_loop::watch_id watch_ = 0;
};

// A socket for messages that a host without the port refuses (ICMP). It has a port of its own: the kernel reports the
// refusals of messages from the shared port to any of the sockets.
class probe_socket final : public event_handler, public std::enable_shared_from_this<probe_socket>
{
public:
    // `returned` gets the messages that came back. Returns NULL and sets errno on error.
    static std::shared_ptr<probe_socket> open(const shared_sockets &sockets, mailbox::receiver returned);
    probe_socket(unique_fd socket, int family, std::uint16_t port, mailbox::receiver returned)
        : socket_(std::move(socket)), family_(family), port_(port), returned_(std::move(returned))
    {
    }
    void close() { event_loop::get()->unwatch(watch_); } // must be called before the last reference is dropped
    void send(const datagram_route &route, const datagram &d, std::span<const std::byte> payload) noexcept;

    poll_result ready(std::uint32_t events) override;

private:
    const unique_fd socket_;
    const int family_;
    const std::uint16_t port_;
    const mailbox::receiver returned_;
    event_loop::watch_id watch_ = 0;
};

// Queue pair 1, the management queue pair of a host. The processes that share UDP port 4791 share its socket and all
// wait for it: a process that runs takes the packet, and hands it on to the process that it is for. A stopped process
// takes none, and its full mailbox loses packets, which their sender repeats.
class management_port final : public event_handler, public std::enable_shared_from_this<management_port>
{
public:
    // Returns NULL and sets errno on error.
    static std::shared_ptr<management_port> open(
            std::shared_ptr<port> through, mailbox::receiver to, mailbox::receiver returned);
    management_port(std::shared_ptr<port> through, mailbox::receiver to)
        : port_(std::move(through)), to_(std::move(to)), outgoing_(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0))
    {
    }
    ~management_port() override;

    bool is_shared() const noexcept { return port_->sockets().is_shared(); }
    std::uint32_t lane() const noexcept { return port_->sockets().lane(); }
    void send(const datagram_route &route, const datagram &d, std::span<const std::byte> payload)
    {
        port_->send(route, d, payload);
    }
    // Sends a message that is reported if the host of the receiver refuses it.
    void probe(const datagram_route &route, const datagram &d, std::span<const std::byte> payload)
    {
        probes_->send(route, d, payload);
    }
    // Returns false if no process has the name.
    bool hand_on(const management_packet &p, const local_address &to) noexcept;

    poll_result ready(std::uint32_t events) override;

private:
    const std::shared_ptr<port> port_;
    const mailbox::receiver to_;
    const unique_fd outgoing_;
    std::shared_ptr<probe_socket> probes_;
};

} // namespace softrdma::roce
