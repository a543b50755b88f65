// SPDX-License-Identifier: BSD-3-Clause
#include "listen/pending_connections.hpp"

#include <algorithm>
#include <cstring>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "config/failure.hpp"
#include "config/log.hpp"

namespace rpmemd
{

namespace
{

constexpr std::chrono::milliseconds authentication_time{10'000};
constexpr std::size_t max_events = 64;

std::size_t max_connections(const limits &allowed)
{
    rlimit files{};
    getrlimit(RLIMIT_NOFILE, &files);
    return std::clamp<std::size_t>(files.rlim_cur / 4, 1, allowed.unauthenticated);
}

pending_connection::address address_of(const sockaddr_storage &peer)
{
    pending_connection::address found{};
    if (peer.ss_family == AF_INET)
        std::memcpy(found.data(), &reinterpret_cast<const sockaddr_in &>(peer).sin_addr, sizeof(in_addr));
    else
        std::memcpy(found.data(), &reinterpret_cast<const sockaddr_in6 &>(peer).sin6_addr, found.size());
    return found;
}

} // namespace

pending_connection::pending_connection(
        replica::fd_owner connection, const sockaddr_storage &peer, const replica::tls_keys &keys)
    : connection_(replica::tls_stream::accept(std::move(connection), keys)), from_(address_of(peer))
{
}

replica::handshake pending_connection::shake_hands()
{
    const replica::handshake result = connection_->shake_hands();
    if (result == replica::handshake::failed)
        log(log_level::warn, "client rejected: " + connection_->failure());
    return result;
}

bool pending_connection::has_proven_key()
{
    if (has_key_ || connection_->identity().empty())
        return false;
    since_ = clock::now();
    return has_key_ = true;
}

pending_connections::pending_connections(const limits &allowed, replica::tls_keys keys)
    : keys_(std::move(keys)), max_all_(max_connections(allowed)),
      max_per_address_(
              std::clamp<std::size_t>(allowed.unauthenticated_per_address, 1, std::max<std::size_t>(max_all_ / 2, 1))),
      ready_(epoll_create1(EPOLL_CLOEXEC))
{
    if (!ready_.valid())
        throw system_failure("cannot wait for clients");
}

int pending_connections::left_ms() const
{
    if (connections_.empty())
        return -1;
    const auto left = connections_.front().since() + authentication_time - pending_connection::clock::now();
    return static_cast<int>(std::max<std::int64_t>(std::chrono::ceil<std::chrono::milliseconds>(left).count(), 0));
}

void pending_connections::erase(list::iterator connection)
{
    const auto count = of_address_.find(connection->from());
    if (--count->second == 0)
        of_address_.erase(count);
    connections_.erase(connection);
}

void pending_connections::add(replica::fd_owner connection, const sockaddr_storage &peer)
{
    const list::iterator added = connections_.emplace(connections_.end(), std::move(connection), peer, keys_);
    const std::size_t of_address = ++of_address_[added->from()];
    epoll_event interest{};
    interest.events = EPOLLIN | EPOLLRDHUP;
    interest.data.ptr = &*added;
    if (epoll_ctl(ready_.get(), EPOLL_CTL_ADD, added->fd(), &interest) != 0)
        return erase(added);
    if (of_address > max_per_address_)
        erase(std::ranges::find(connections_, pending_connection::address(added->from()), &pending_connection::from));
    else if (connections_.size() > max_all_)
        erase(connections_.begin());
}

void pending_connections::serve(const std::function<void(std::unique_ptr<replica::tls_stream>)> &f)
{
    std::array<epoll_event, max_events> events{};
    const int count = epoll_wait(ready_.get(), events.data(), max_events, 0);
    for (int i = 0; i < count; ++i) {
        auto *const at = static_cast<pending_connection *>(events[static_cast<std::size_t>(i)].data.ptr);
        const replica::handshake result = at->shake_hands();
        const bool is_pending = result == replica::handshake::pending;
        if (is_pending && !at->has_proven_key())
            continue;
        const auto entry = std::ranges::find(connections_, at, [](const pending_connection &n) { return &n; });
        if (is_pending) {
            connections_.splice(connections_.end(), connections_, entry);
            continue;
        }
        if (result == replica::handshake::complete) {
            epoll_ctl(ready_.get(), EPOLL_CTL_DEL, at->fd(), nullptr);
            f(at->release());
        }
        erase(entry);
    }
}

void pending_connections::close_late()
{
    while (!connections_.empty() && left_ms() == 0)
        erase(connections_.begin());
}

} // namespace rpmemd
