// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/lock.hpp"
#include "progress/path_timer.hpp"
#include "transport/datagram_path.hpp"
#include "transport/packet_path.hpp"
#include "transport/roce/packet_socket.hpp"
#include "transport/roce/replier.hpp"
#include "transport/roce/sender.hpp"
#include "wire/roce.hpp"

namespace softrdma::roce
{

class port;

// The path of one queue pair to the address and number of its peer.
class connection final : public packet_path, private packet_outlet, public std::enable_shared_from_this<connection>
{
public:
    // `number` is that of the local queue pair.
    static std::shared_ptr<connection> create(
            std::shared_ptr<port> through, std::uint32_t number, const datagram_route &route, const attributes &attr);
    connection(
            std::shared_ptr<port> through, std::uint32_t number, const datagram_route &route, const attributes &attr);

    void transmit(const packet &header, std::span<const iovec> payload, bool more) override;
    void push() override {}
    bool congested() override;
    bool responses_congested() override
    {
        const lock_guard lock(mutex_);
        return pauses_;
    }
    std::size_t send_space() override { return short_segment; }
    void start_timer(std::chrono::microseconds delay) override;
    void start_response_timer(std::chrono::microseconds) override {} // the sender limits the time for responses
    void ends(sockaddr_storage &local, sockaddr_storage &remote) const override;
    void cut() noexcept override
    {
        if (!lost_.exchange(true))
            event_loop::get()->defer(std::move(loss_call_), std::chrono::microseconds(0));
    }
    const char *name() const noexcept override { return "roce"; }

    // Packets go to the receiver after this call; NULL drops them.
    void bind(std::shared_ptr<packet_receiver> receiver)
    {
        const lock_guard lock(mutex_);
        receiver_.swap(receiver); // the former one is released after the lock
    }
    std::shared_ptr<packet_receiver> bound()
    {
        const lock_guard lock(mutex_);
        return receiver_;
    }
    // Must be called before the first request is sent. Number and MTU remain those of the construction.
    void start_sending(attributes attr);

    // Sends packets in groups after this call. The peer must accept any IPv4 identification.
    void group_packets()
    {
        const lock_guard lock(mutex_);
        groups_ = true;
    }

    // For the port, which calls them in one thread at a time.
    bool is_between(const udp_flow &flow) const noexcept
    {
        return flow.source == route_.destination && flow.destination == route_.source;
    }
    void arrived(const packet &p) noexcept;
    void received_all() noexcept;

private:
    // READ responses that are sent without a pause: a long READ must not overflow the buffers on its way.
    static constexpr unsigned max_burst = 64;
    static constexpr std::chrono::microseconds burst_pause{200};
    // Time for which packets are sent singly after the kernel could not cut a group: the route may change.
    static constexpr std::chrono::milliseconds single_packets{100};

    void out_of_memory() noexcept;
    void notify_lost()
    {
        if (const auto receiver = bound(); receiver != nullptr)
            receiver->path_lost(*this);
    }
    void send(const packet &p, std::span<const std::byte> payload) override REQUIRES(mutex_);
    bool joins_group(const outgoing_packet &p) const REQUIRES(mutex_);
    void send_group() REQUIRES(mutex_);
    void start_retry_timer() REQUIRES(mutex_);
    void retry_timer_expired() noexcept;
    void start_pause() REQUIRES(mutex_);

    const std::shared_ptr<port> port_;
    const datagram_route route_;
    const packet_socket socket_;
    const attributes attr_;
    ordered_mutex mutex_{lock_level::sending};
    replier replier_ GUARDED_BY(mutex_);
    std::optional<sender> sender_ GUARDED_BY(mutex_);
    std::shared_ptr<packet_receiver> receiver_ GUARDED_BY(mutex_); // keeps its queue pair alive
    path_timer timer_;
    std::atomic<bool> lost_{false};
    reserve::prepared_call loss_call_; // allocated with it; deferred by the thread that sets `lost_`
    deadline_timer retry_timer_ GUARDED_BY(mutex_);
    bool was_congested_ GUARDED_BY(mutex_) = false;
    time_point burst_began_ GUARDED_BY(mutex_){};
    unsigned burst_ GUARDED_BY(mutex_) = 0; // READ responses since then
    bool pauses_ GUARDED_BY(mutex_) = false;
    // Packets that are sent at the end of the current call; their payload belongs to the sender or the replier.
    std::vector<outgoing_packet> group_ GUARDED_BY(mutex_);
    bool groups_ GUARDED_BY(mutex_);
    std::optional<time_point> single_until_ GUARDED_BY(mutex_);
    std::optional<std::uint32_t> newest_flush_ GUARDED_BY(mutex_); // PSN
    bool sends_both_ GUARDED_BY(mutex_) = false;                   // each FLUSH, with the CRC of either rule
};

} // namespace softrdma::roce
