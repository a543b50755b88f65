// SPDX-License-Identifier: BSD-3-Clause
#include "transport/roce/connection.hpp"
#include "base/gid_table.hpp"
#include "base/log.hpp"
#include "transport/roce/port.hpp"

#include <bit>

namespace softrdma::roce
{

namespace
{

using clock = std::chrono::steady_clock;

sockaddr_storage end_of(const network_address &address, unsigned interface) noexcept
{
    sockaddr_storage end = address_of(std::bit_cast<ibv_gid>(address), interface);
    port_of(end) = htons(udp_port);
    return end;
}

} // namespace

connection::connection(
        std::shared_ptr<port> through, std::uint32_t number, const datagram_route &route, const attributes &attr)
    : port_(std::move(through)), route_(route), socket_(port_->source_of(route, number, attr.dest_qpn)), attr_(attr),
      replier_(attr, *this),
      // Only an IPv4 header has an identification, and the peer of an own address uses this device.
      groups_(!is_v4(std::bit_cast<ibv_gid>(route.destination)) || is_own_address(route.destination))
{
}

std::shared_ptr<connection> connection::create(
        std::shared_ptr<port> through, std::uint32_t number, const datagram_route &route, const attributes &attr)
{
    auto created = std::make_shared<connection>(std::move(through), number, route, attr);
    created->loss_call_ = reserve::prepared_call([weak = created->weak_from_this()] {
        if (const auto self = weak.lock(); self != nullptr)
            self->notify_lost();
    });
    return created;
}

void connection::start_sending(attributes attr)
{
    attr.dest_qpn = attr_.dest_qpn;
    attr.mtu = attr_.mtu;
    const lock_guard lock(mutex_);
    packet_outlet &out = *this;
    sender_.emplace(attr, out);
}

bool connection::joins_group(const outgoing_packet &p) const
{
    if (!groups_ || group_.empty() || group_.size() == packet_socket::max_packets ||
            (single_until_ && clock::now() < *single_until_))
        return false;
    const std::size_t size = group_.front().size();
    return group_.back().size() == size && p.size() <= size &&
           group_.size() * size + p.size() <= packet_socket::max_bytes;
}

void connection::send_group()
{
    if (group_.empty())
        return;
    if (!port_->send(socket_, route_, attr_.dest_qpn, group_)) {
        single_until_ = clock::now() + single_packets;
        for (const outgoing_packet &p : group_)
            port_->send(socket_, route_, attr_.dest_qpn, {&p, 1});
    }
    group_.clear();
}

void connection::send(const packet &p, std::span<const std::byte> payload)
{
    burst_ += is_read_response(p.op) ? 1u : 0u;
    const outgoing_packet sent{encode(p, payload.size()), payload};
    if (!joins_group(sent))
        send_group();
    group_.push_back(sent);
    if (p.op != opcode::flush)
        return;
    // SoftRoCE drops a FLUSH with the standard CRC, other devices one with its own. A repeated FLUSH has both.
    sends_both_ = sends_both_ || (newest_flush_ && !psn_after(p.psn, *newest_flush_));
    newest_flush_ = p.psn;
    if (sends_both_) {
        send_group();
        port_->send(socket_, route_, attr_.dest_qpn, {&sent, 1}, crc_rule::packet_twice);
    }
}

void connection::transmit(const packet &header, std::span<const iovec> payload, bool)
try {
    const lock_guard lock(mutex_);
    if (lost_)
        return;
    if (!is_request(header.op) && header.op != opcode::ack_request) {
        if (const auto now = clock::now(); now - burst_began_ > burst_pause) {
            burst_began_ = now;
            burst_ = 0;
        }
        replier_.reply(header, payload);
        send_group();
        if (replier_.has_failed())
            cut();
        if (burst_ >= max_burst && !pauses_)
            start_pause();
    } else if (sender_) {
        sender_->post(header, payload, clock::now());
        send_group();
        start_retry_timer();
        if (sender_->has_failed())
            cut();
    }
} catch (const std::bad_alloc &) {
    out_of_memory();
}

// Pauses the responder after a burst of READ responses.
void connection::start_pause()
{
    pauses_ = true;
    event_loop::get()->after(burst_pause, [weak = weak_from_this()] {
        const auto self = weak.lock();
        if (self == nullptr)
            return;
        std::shared_ptr<packet_receiver> receiver;
        {
            const lock_guard lock(self->mutex_);
            self->pauses_ = false;
            receiver = self->receiver_;
        }
        if (receiver != nullptr)
            receiver->path_writable();
    });
}

bool connection::congested()
{
    const lock_guard lock(mutex_);
    const bool is_full = sender_ && sender_->congested();
    was_congested_ = was_congested_ || is_full;
    return is_full;
}

void connection::start_timer(std::chrono::microseconds delay)
try {
    timer_.start(weak_from_this(), delay);
} catch (const std::bad_alloc &) {
    out_of_memory();
}

void connection::start_retry_timer()
{
    retry_timer_.start(sender_->deadline(), [weak = weak_from_this()] {
        if (const auto self = weak.lock(); self != nullptr)
            self->retry_timer_expired();
    });
}

void connection::retry_timer_expired() noexcept
try {
    const lock_guard lock(mutex_);
    retry_timer_.expired();
    if (lost_ || receiver_ == nullptr)
        return;
    sender_->expired(clock::now());
    send_group();
    if (sender_->has_failed())
        cut();
    else
        start_retry_timer();
} catch (const std::bad_alloc &) {
    out_of_memory();
}

void connection::ends(sockaddr_storage &local, sockaddr_storage &remote) const
{
    local = end_of(route_.source, route_.interface);
    remote = end_of(route_.destination, route_.interface);
}

void connection::out_of_memory() noexcept
{
    log::write(log::level::error, "connection: cut: out of memory");
    cut();
}

void connection::arrived(const packet &p) noexcept
try {
    std::optional<packet> up;
    std::shared_ptr<packet_receiver> receiver;
    {
        const lock_guard lock(mutex_);
        if (lost_ || receiver_ == nullptr)
            return;
        receiver = receiver_;
        if (is_request(p.op)) {
            up = replier_.arrived(p);
        } else if (sender_) {
            up = sender_->arrived(p, clock::now());
            start_retry_timer();
        }
        send_group();
    }
    if (up && !receiver->receive(*this, *up))
        cut();
} catch (const std::bad_alloc &) {
    out_of_memory();
}

void connection::received_all() noexcept
try {
    const auto receiver = bound();
    if (receiver == nullptr || lost_)
        return;
    receiver->received_all();
    {
        const lock_guard lock(mutex_);
        replier_.received_all();
        send_group();
        if (sender_ && sender_->has_failed())
            cut();
        if (!was_congested_ || sender_->congested())
            return;
        was_congested_ = false;
    }
    receiver->path_writable();
} catch (const std::bad_alloc &) {
    out_of_memory();
}

} // namespace softrdma::roce
