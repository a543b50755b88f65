// SPDX-License-Identifier: BSD-3-Clause
#include "newcomers.hpp"

#include <algorithm>
#include <cstring>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "failure.hpp"
#include "log.hpp"

namespace rpmemd
{

namespace
{

constexpr std::chrono::milliseconds authentication_time{10'000};
constexpr std::size_t max_events = 64;

// Limits unauthenticated connections to a quarter of the descriptors that the daemon may have.
std::size_t max_connections(const limits &allowed)
{
    rlimit files{};
    getrlimit(RLIMIT_NOFILE, &files);
    return std::clamp<std::size_t>(files.rlim_cur / 4, 1, allowed.unauthenticated);
}

// Compares in constant time.
bool equal(const replica::siphash_result &a, const replica::siphash_result &b)
{
    volatile unsigned different = 0;
    for (std::size_t i = 0; i < a.size(); ++i)
        different = different | std::to_integer<unsigned>(a[i] ^ b[i]);
    return different == 0;
}

newcomer::address address_of(const sockaddr_storage &peer)
{
    newcomer::address found{};
    if (peer.ss_family == AF_INET)
        std::memcpy(found.data(), &reinterpret_cast<const sockaddr_in &>(peer).sin_addr, sizeof(in_addr));
    else
        std::memcpy(found.data(), &reinterpret_cast<const sockaddr_in6 &>(peer).sin6_addr, found.size());
    return found;
}

} // namespace

newcomer::newcomer(replica::fd_owner connection, const sockaddr_storage &peer)
    : connection_(std::move(connection)), from_(address_of(peer))
{
}

// Never blocks: the buffer of a new socket has space for all messages of a newcomer.
bool newcomer::send(const std::string &frame) const
{
    return ::send(fd(), frame.data(), frame.size(), MSG_NOSIGNAL | MSG_DONTWAIT) == static_cast<ssize_t>(frame.size());
}

bool newcomer::greet() const
{
    replica::greeting greeting;
    greeting.set_features(replica::feature_mirror);
    return send(replica::encode(greeting));
}

// Returns false if the peer has closed the connection. Bytes after the message belong to its session and are not read.
bool newcomer::receive(std::size_t wanted)
{
    const ssize_t got = recv(fd(), &bytes_[received_], wanted - received_, MSG_DONTWAIT);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR;
    received_ += static_cast<std::size_t>(got);
    return got != 0;
}

bool newcomer::serve(const replica::mirror_key &key)
{
    constexpr std::size_t start = replica::frame_header_size;
    if (received_ < start)
        return receive(start) && (received_ < start || serve(key));
    const std::span<const std::byte> bytes(bytes_);
    const std::optional<std::size_t> size = replica::message_size(bytes.first<start>());
    if (!size || *size > bytes.size() - start || (received_ < start + *size && !receive(start + *size)))
        return false;
    if (received_ < start + *size)
        return true;
    received_ = 0;
    replica::request request;
    const std::string_view message(reinterpret_cast<const char *>(&bytes_[start]), *size);
    return replica::decode(message, request) == replica::decoded::good && authenticate(request, key);
}

// Sends one challenge, and nothing else before the peer has proven that it has the key.
bool newcomer::authenticate(const replica::request &request, const replica::mirror_key &key)
{
    response_ = replica::response_to(request);
    if (request.has_challenge() && !challenged_) {
        challenged_ = getrandom(challenge_.data(), challenge_.size(), 0) == static_cast<ssize_t>(challenge_.size());
        response_.set_challenge(replica::bytes_of(challenge_));
        return challenged_ && send(replica::encode(response_));
    }
    proven_ = request.has_prove() && challenged_ &&
              equal(replica::array_of<replica::siphash_result>(request.prove().proof()),
                      replica::prove_key(key, challenge_));
    if (!proven_)
        log(log_level::warn, "client rejected: authentication failed");
    return proven_;
}

bool newcomer::respond(const std::string &failure)
{
    if (!failure.empty())
        set_failure(response_, replica::status::fatal, failure);
    return send(replica::encode(response_));
}

newcomers::newcomers(const limits &allowed, const replica::mirror_key &key)
    : key_(key), max_all_(max_connections(allowed)),
      max_per_address_(
              std::clamp<std::size_t>(allowed.unauthenticated_per_address, 1, std::max<std::size_t>(max_all_ / 2, 1))),
      ready_(epoll_create1(EPOLL_CLOEXEC))
{
    if (!ready_.valid())
        throw system_failure("cannot wait for clients");
}

int newcomers::left_ms() const
{
    if (connections_.empty())
        return -1;
    const auto left = connections_.front().since() + authentication_time - newcomer::clock::now();
    return static_cast<int>(std::max<std::int64_t>(std::chrono::ceil<std::chrono::milliseconds>(left).count(), 0));
}

void newcomers::erase(list::iterator of)
{
    const auto count = of_address_.find(of->from());
    if (--count->second == 0)
        of_address_.erase(count);
    connections_.erase(of);
}

void newcomers::add(replica::fd_owner connection, const sockaddr_storage &peer)
{
    const list::iterator added = connections_.emplace(connections_.end(), std::move(connection), peer);
    const std::size_t of_address = ++of_address_[added->from()];
    epoll_event wanted{};
    wanted.events = EPOLLIN | EPOLLRDHUP;
    wanted.data.ptr = &*added;
    if (!added->greet() || epoll_ctl(ready_.get(), EPOLL_CTL_ADD, added->fd(), &wanted) != 0)
        return erase(added);
    if (of_address > max_per_address_)
        erase(std::ranges::find(connections_, newcomer::address(added->from()), &newcomer::from));
    else if (connections_.size() > max_all_)
        erase(connections_.begin());
}

void newcomers::serve(const std::function<void(newcomer &)> &f)
{
    std::array<epoll_event, max_events> events{};
    const int count = epoll_wait(ready_.get(), events.data(), max_events, 0);
    for (int i = 0; i < count; ++i) {
        auto *const at = static_cast<newcomer *>(events[static_cast<std::size_t>(i)].data.ptr);
        if (at->serve(key_) && !at->has_proven())
            continue;
        if (at->has_proven()) {
            epoll_ctl(ready_.get(), EPOLL_CTL_DEL, at->fd(), nullptr);
            f(*at);
        }
        erase(std::ranges::find(connections_, at, [](const newcomer &n) { return &n; }));
    }
}

void newcomers::close_late()
{
    while (!connections_.empty() && left_ms() == 0)
        erase(connections_.begin());
}

} // namespace rpmemd
