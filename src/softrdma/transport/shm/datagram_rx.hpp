// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "progress/listener.hpp"
#include "transport/shm/datagram_ring.hpp"
#include "transport/shm/local_caller.hpp"

#include <optional>

namespace softrdma::net
{

class datagram_peer;
struct ring_offer;

// Whose queue pairs are sent to.
class datagram_peer_owner
{
public:
    virtual ~datagram_peer_owner() = default;
    // False if it has as many as it wants.
    virtual bool add(const std::shared_ptr<datagram_peer> &peer) = 0;
    // Takes what is whole in its ring, for the last time.
    virtual void remove(datagram_peer &peer) = 0;
    // That wakes the owner.
    virtual int wake_descriptor() const noexcept = 0;
};

// A process of this host that sends datagrams to ours through a ring that it has handed over.
class datagram_peer : public local_caller
{
public:
    datagram_peer(int socket, unknown_callers &others, std::uint16_t own_port,
            std::weak_ptr<datagram_peer_owner> owner) noexcept
        : local_caller(socket, others), own_port_(own_port), owner_(std::move(owner))
    {
    }

    finding ready(std::uint32_t events) override;

    // The owner's from add() on, one thread at a time.
    std::optional<local::ring_reader> ring;
    bool has_sent = false; // through it
    // Both addresses of a datagram are what its sender says.
    bool is_of_this_host(const network_address &source, const network_address &destination) noexcept;

private:
    bool take(const ring_offer &offer, int file, datagram_peer_owner &owner) REQUIRES(mutex_);

    const std::uint16_t own_port_;
    const std::weak_ptr<datagram_peer_owner> owner_;
    bool added_ GUARDED_BY(mutex_) = false;
    network_address known_source_{}; // that have been found to be of this host
    network_address known_destination_{};
};

// Rings for the queue pairs of that port are taken there. NULL if this process shares no memory, or somebody else has
// the name.
std::shared_ptr<listener> listen_for_rings(std::uint16_t port, std::weak_ptr<datagram_peer_owner> owner);

} // namespace softrdma::net
