// SPDX-License-Identifier: BSD-3-Clause
#include "transport/shm/datagram_rx.hpp"
#include "base/gid_table.hpp"
#include "transport/shm/fd_message.hpp"
#include "transport/shm/policy.hpp"

namespace softrdma
{

static constinit process::single<pending_peers> without_an_offer;

bool datagram_peer::is_of_this_host(const network_address &source, const network_address &destination) noexcept
{
    if (source == cached_source_ && destination == cached_destination_)
        return true;
    if (!is_own_address(source) || !is_own_address(destination))
        return false;
    cached_source_ = source;
    cached_destination_ = destination;
    return true;
}

poll_result datagram_peer::ready(std::uint32_t)
{
    const lock_guard lock(mutex_);
    ring_offer offer;
    received_fds fds;
    const reception r = receive(socket_.get(), offer, fds);
    if (r == reception::nothing) // another thread has received the message
        return poll_result::idle;
    // A peer sends one message, the offer. Afterwards only the end of the connection is expected.
    const auto owner = owner_.lock();
    if (r == reception::message && on_message() && owner != nullptr && !added_ && take(offer, fds[0].get(), *owner))
        return poll_result::progress;
    if (owner != nullptr && added_)
        owner->remove(*this);
    drop();
    return poll_result::progress;
}

bool datagram_peer::take(const ring_offer &offer, int file, datagram_peer_owner &owner)
{
    if (offer.version != ring_offer{}.version || offer.port > UINT16_MAX || !is_ring_file(file))
        return false;
    ring_memory memory = map_ring(file);
    if (memory == nullptr)
        return false;
    ring.emplace(std::move(memory), own_port_, static_cast<std::uint16_t>(offer.port));
    added_ = owner.add(std::static_pointer_cast<datagram_peer>(shared_from_this()));
    return added_ && send_message(socket_.get(), ring_offer{.port = own_port_}, std::array{owner.wake_descriptor()});
}

std::shared_ptr<listener> listen_for_rings(std::uint16_t port, std::weak_ptr<datagram_peer_owner> owner)
{
    if (policy() == transport_word::tcp)
        return nullptr;
    const auto address = fd_server_address::of_datagrams(port);
    unique_fd socket = open_local_socket();
    if (bind(socket.get(), address.get(), address.size) != 0)
        return nullptr;
    return listener::open(socket.release(), SOMAXCONN, [port, owner = std::move(owner)](int accepted) {
        if (accepted < 0)
            return without_an_offer.get().pause();
        return std::make_shared<datagram_peer>(unique_fd(accepted), without_an_offer.get(), port, owner)->enter();
    });
}

} // namespace softrdma
