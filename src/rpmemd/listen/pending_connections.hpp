// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>

#include "base/fd_owner.hpp"
#include "channel/tls_stream.hpp"
#include "config/config.hpp"

struct sockaddr_storage;

namespace rpmemd
{

// Unauthenticated connection, during its TLS handshake. Never blocks.
class pending_connection
{
public:
    // An IPv4 address, or the /64 network of an IPv6 peer, which can use all of its addresses.
    using address = std::array<std::byte, 8>;
    using clock = std::chrono::steady_clock;

    pending_connection(replica::fd_owner connection, const sockaddr_storage &peer, const replica::tls_keys &keys);

    replica::handshake shake_hands();
    // Returns true once, after the first message of the peer proved that it has a key. Then restarts the timeout.
    bool has_proven_key();

    const address &from() const { return from_; }
    clock::time_point since() const { return since_; }
    int fd() const { return connection_->fd(); }
    std::unique_ptr<replica::tls_stream> release() { return std::move(connection_); }

private:
    std::unique_ptr<replica::tls_stream> connection_;
    address from_;
    clock::time_point since_ = clock::now();
    bool has_key_ = false;
};

// Unauthenticated connections. Any host can open them, so their number is limited separately from the sessions, in
// total and for each address. Beyond a limit the oldest connection is closed. A proven key makes a connection the
// newest one again. A connection that does not authenticate within 10 s is closed.
class pending_connections
{
public:
    pending_connections(const limits &allowed, replica::tls_keys keys);

    // Descriptor that becomes readable when serve() has work to do.
    int fd() const { return ready_.get(); }
    std::size_t size() const { return connections_.size(); }
    // Milliseconds until close_late(), -1 without connections.
    int left_ms() const;

    void set_keys(replica::tls_keys keys) { keys_ = std::move(keys); }
    void add(replica::fd_owner connection, const sockaddr_storage &peer);
    // Calls f with each connection that has authenticated, and removes it.
    void serve(const std::function<void(std::unique_ptr<replica::tls_stream>)> &f);
    void close_late();

private:
    using list = std::list<pending_connection>;

    void erase(list::iterator connection);

    replica::tls_keys keys_;
    const std::size_t max_all_;
    const std::size_t max_per_address_;
    const replica::fd_owner ready_; // epoll set
    list connections_;              // the oldest first
    std::map<pending_connection::address, std::size_t> of_address_;
};

} // namespace rpmemd
