// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "wire/datagram.hpp"

#include <memory>
#include <sys/uio.h>

namespace softrdma
{

// Destination of a datagram, and the local address that it is sent from.
struct datagram_route {
    network_address source;
    network_address destination;
    unsigned interface; // scope of a link-local address
    std::uint8_t traffic_class = 0;
};

// Receiver of the datagrams for one queue pair number. An interface, because paths know no queue pair.
class datagram_receiver
{
public:
    virtual ~datagram_receiver() = default;
    // Called without a lock, by one thread at a time, with unauthenticated data. The header contains both addresses.
    virtual void arrived(const datagram &d, const network_header &header) = 0;
};

// Network access of a datagram queue pair: a number, released with it, that peers use, and a path to them.
class datagram_path
{
public:
    virtual ~datagram_path() = default;
    virtual std::uint32_t number() const noexcept = 0;
    // Sets the receiver of later datagrams; NULL drops them. The former receiver is no longer called after this
    // returns. The caller must not hold a lock, and must not be called by a receiver.
    virtual void listen(std::shared_ptr<datagram_receiver> receiver) = 0;
    // Reads the payload before it returns; false if it cannot. A datagram that the network does not accept is lost.
    virtual bool send(const datagram &d, const datagram_route &route, std::span<const iovec> payload) = 0;
};

} // namespace softrdma
