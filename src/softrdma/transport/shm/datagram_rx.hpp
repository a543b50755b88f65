// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "progress/listener.hpp"
#include "transport/shm/datagram_ring.hpp"
#include "transport/shm/local_client.hpp"

#include <optional>

namespace softrdma
{

class datagram_peer;
struct ring_offer;

// Port whose queue pairs receive the datagrams. An interface, because transport/udp is above this module.
class datagram_peer_owner
{
public:
    virtual ~datagram_peer_owner() = default;
    virtual bool add(const std::shared_ptr<datagram_peer> &peer) = 0; // false if the limit of peers is reached
    virtual void remove(datagram_peer &peer) = 0;     // removes a peer, after taking the complete datagrams in its ring
    virtual int wake_descriptor() const noexcept = 0; // eventfd that wakes the owner
};

// A process on this host that sends datagrams to this process through a ring that it has passed.
class datagram_peer : public local_client
{
public:
    datagram_peer(unique_fd socket, pending_peers &others, std::uint16_t own_port,
            std::weak_ptr<datagram_peer_owner> owner) noexcept
        : local_client(std::move(socket), others), own_port_(own_port), owner_(std::move(owner))
    {
    }

    poll_result ready(std::uint32_t events) override;

    std::optional<ring_reader> ring; // used by the owner after add(), one thread at a time
    bool has_sent = false;           // true once it has sent a datagram through the ring
    // Checks both addresses of a datagram, which its sender has supplied.
    bool is_of_this_host(const network_address &source, const network_address &destination) noexcept;

private:
    bool take(const ring_offer &offer, int file, datagram_peer_owner &owner) REQUIRES(mutex_);

    const std::uint16_t own_port_;
    const std::weak_ptr<datagram_peer_owner> owner_;
    bool added_ GUARDED_BY(mutex_) = false;
    network_address cached_source_{}; // last address pair that was found to be of this host
    network_address cached_destination_{};
};

// Accepts rings for the queue pairs of that port. NULL if this process shares no memory, or the name is in use.
std::shared_ptr<listener> listen_for_rings(std::uint16_t port, std::weak_ptr<datagram_peer_owner> owner);

} // namespace softrdma
