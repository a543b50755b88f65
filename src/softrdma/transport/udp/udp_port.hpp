// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/process.hpp"
#include "base/sleeping_lock.hpp"
#include "base/spin_lock.hpp"
#include "progress/event_loop.hpp"
#include "transport/datagram_path.hpp"
#include "transport/shm/datagram_rx.hpp"
#include "transport/shm/datagram_tx.hpp"

#include <array>
#include <vector>

struct msghdr;

namespace softrdma
{

// A UDP socket on a port that the kernel chooses, for datagram queue pairs, whose numbers contain the port.
class udp_port : public event_handler, public datagram_peer_owner, public std::enable_shared_from_this<udp_port>
{
public:
    static constexpr std::uint32_t numbers = 256;

    static std::shared_ptr<udp_port> open(); // NULL, with errno set, on error
    explicit udp_port(int family) noexcept;

    std::uint32_t reserve();            // 0 if none is left
    bool release(std::uint32_t number); // true if that was the last number in use
    void listen(std::uint32_t number, std::shared_ptr<datagram_receiver> receiver)
    {
        const lock_guard lock(reading_);
        receivers_[number % numbers].swap(receiver); // the former one is released after the lock
    }
    bool send(const datagram &d, const datagram_route &route, std::span<const iovec> payload);
    void close();

    poll_result ready(std::uint32_t events) override;
    poll_result poll() override;
    poll_result poll_memory() override;
    bool about_to_sleep() override;

    bool add(const std::shared_ptr<datagram_peer> &peer) override;
    void remove(datagram_peer &peer) override;
    int wake_descriptor() const noexcept override { return wake_.get(); }

private:
    static constexpr std::size_t batch = 16;
    struct arrivals;

    int open_at_any_port();
    bool watch();
    bool send_packet(const datagram &d, const datagram_route &route, std::span<const iovec> payload) const;
    bool receive_packets() REQUIRES(reading_);
    void forward(std::span<const std::byte> bytes, msghdr &message) REQUIRES(reading_);
    bool empty_rings() REQUIRES(reading_);
    bool empty(datagram_peer &peer, std::size_t max_count, bool &any) REQUIRES(reading_);
    void deliver(const datagram &d, const network_header &header) REQUIRES(reading_)
    {
        if (const auto &receiver = receivers_[d.dest_qpn % numbers]; receiver != nullptr)
            receiver->arrived(d, header);
    }

    const int family_;
    process::watched_fd socket_;
    unique_fd reservation_; // TCP socket that keeps reliable queue pairs off the port
    std::uint16_t port_ = 0;
    event_loop::watch_id watch_ = 0;
    event_loop::watch_id wake_watch_ = 0;
    process::watched_fd wake_;                 // eventfd with which a ring writer wakes this process
    std::shared_ptr<listener> rings_listener_; // NULL if rings are not offered
    std::unique_ptr<datagram_tx> tx_;
    sleeping_lock reading_{lock_level::reading};
    std::array<std::shared_ptr<datagram_receiver>, numbers> receivers_ GUARDED_BY(
            reading_); // indexed by the last byte of the number
    std::vector<std::shared_ptr<datagram_peer>> peers_ GUARDED_BY(reading_);
    std::unique_ptr<arrivals> arrivals_ PT_GUARDED_BY(reading_);
    spin_lock mutex_{lock_level::tables};
    std::uint32_t next_ GUARDED_BY(mutex_) = 0; // delays the reuse of released numbers
    std::array<bool, numbers> used_ GUARDED_BY(mutex_){};
};

std::unique_ptr<datagram_path> open_datagram_path(); // NULL, with errno set, on error

} // namespace softrdma
