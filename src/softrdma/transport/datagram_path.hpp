// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "wire/datagram.hpp"

#include <memory>
#include <sys/uio.h>

namespace softrdma
{

// Where a datagram goes, and from which of this host's addresses.
struct datagram_route {
    network_address source;
    network_address destination;
    unsigned interface; // gives a link-local address its meaning
};

// Who is reached under a number.
class datagram_receiver
{
public:
    virtual ~datagram_receiver() = default;
    // Called without a lock, by one thread at a time. The header says where it came from; all of it comes from a
    // stranger.
    virtual void arrived(const datagram &d, const network_header &header) = 0;
};

// What a datagram queue pair needs of the network: a number under which others reach it, and a way to them. It ends
// with the object.
class datagram_path
{
public:
    virtual ~datagram_path() = default;
    virtual std::uint32_t number() const noexcept = 0;
    // What arrives from now on is the receiver's, or nobody's. The former one is not called any more. To be called
    // without a lock, and not by a receiver that is called.
    virtual void listen(std::shared_ptr<datagram_receiver> receiver) = 0;
    // The payload has been read before the call returns. False if it cannot be read; a datagram that the network does
    // not take is lost.
    virtual bool send(const datagram &d, const datagram_route &route, std::span<const iovec> payload) = 0;
};

} // namespace softrdma
