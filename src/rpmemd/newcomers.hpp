// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <map>

#include "config.hpp"
#include "control.hpp"
#include "fd_owner.hpp"

struct sockaddr_storage;

namespace rpmemd
{

// Unauthenticated connection: greets the peer, and checks the proof that the peer has the key. Never blocks.
class newcomer
{
public:
    // The /64 network of an IPv6 peer, which can use each address of it, or an IPv4 address.
    using address = std::array<std::byte, 8>;
    using clock = std::chrono::steady_clock;

    newcomer(replica::fd_owner connection, const sockaddr_storage &peer);

    // Returns false if the connection has failed.
    bool greet() const;
    // Serves a request if it has arrived. Returns false if the connection has failed. After true, has_proven() reports
    // whether the peer has authenticated.
    bool serve(const replica::mirror_key &key);

    bool has_proven() const { return proven_; }
    const address &from() const { return from_; }
    clock::time_point since() const { return since_; }
    int fd() const { return connection_.get(); }
    replica::fd_owner release() { return std::move(connection_); }
    // Sends the response to the proof: an error if `failure` is not empty.
    bool respond(const std::string &failure);

private:
    static constexpr std::size_t max_request = 64;

    bool receive(std::size_t wanted);
    bool authenticate(const replica::request &request, const replica::mirror_key &key);
    bool send(const std::string &frame) const;

    replica::fd_owner connection_;
    address from_;
    clock::time_point since_ = clock::now();
    std::array<std::byte, max_request> bytes_{};
    std::size_t received_ = 0;
    replica::siphash_result challenge_{};
    bool challenged_ = false;
    bool proven_ = false;
    replica::response response_; // to the last request
};

// Unauthenticated connections. Any host can open them, so their number is limited, in total and for each address,
// separately from the sessions. Beyond a limit the oldest connection is closed. A connection that does not authenticate
// within 10 s is closed, too.
class newcomers
{
public:
    // Throws failure.
    newcomers(const limits &allowed, const replica::mirror_key &key);

    // Descriptor that becomes readable when serve() has work to do.
    int fd() const { return ready_.get(); }
    std::size_t size() const { return connections_.size(); }
    // Milliseconds until close_late(), -1 without connections.
    int left_ms() const;

    void add(replica::fd_owner connection, const sockaddr_storage &peer);
    // Calls f with each connection that has authenticated, and removes it.
    void serve(const std::function<void(newcomer &)> &f);
    void close_late();

private:
    using list = std::list<newcomer>;

    void erase(list::iterator of);

    const replica::mirror_key key_;
    const std::size_t max_all_;
    const std::size_t max_per_address_;
    const replica::fd_owner ready_; // epoll
    list connections_;              // the oldest first
    std::map<newcomer::address, std::size_t> of_address_;
};

} // namespace rpmemd
