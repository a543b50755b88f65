// SPDX-License-Identifier: BSD-3-Clause
#include "channel.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include "failure.hpp"
#include "resolver.hpp"

namespace mirror
{

namespace
{

// Detects a target host that has failed within 15 s.
void watch_peer(int fd)
{
    const int on = 1, idle_s = 5, interval_s = 3, probes = 3, unanswered_ms = 15'000;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof(interval_s));
    setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
    setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &unanswered_ms, sizeof(unanswered_ms));
}

// Connects a non-blocking socket. Returns 0 or an errno value.
int connect_to(int fd, const addrinfo &at, const replica::deadline &until)
{
    if (::connect(fd, at.ai_addr, at.ai_addrlen) == 0)
        return 0;
    if (errno != EINPROGRESS)
        return errno;
    int error = ETIMEDOUT;
    socklen_t size = sizeof(error);
    if (replica::wait_for(fd, POLLOUT, until))
        getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &size);
    return error;
}

int code_of(replica::status status)
{
    switch (status) {
    case replica::status::fenced:
        return RPMA_MIRROR_E_FENCED;
    case replica::status::exists:
        return RPMA_MIRROR_E_EXISTS;
    case replica::status::missing:
        return RPMA_MIRROR_E_NOT_FOUND;
    case replica::status::busy:
        return RPMA_MIRROR_E_BUSY;
    default:
        return RPMA_MIRROR_E_REJECTED;
    }
}

} // namespace

replica::tls_keys read_key(const std::string &path)
{
    try {
        replica::tls_keys keys = replica::read_key_file(path);
        if (keys.size() == 1)
            return keys;
    } catch (const replica::key_file_error &error) {
        throw failure(RPMA_MIRROR_E_SYSTEM, error.what(), error.os_errno());
    }
    throw failure(RPMA_MIRROR_E_SYSTEM,
            "key file " + path + ": contains several keys (a client needs a file with only its own)", EBADMSG);
}

channel::channel(const target_settings &to, const replica::tls_keys &key, const replica::deadline &until)
    : name_("target " + to.name()), connection_(std::make_unique<replica::tls_stream>(connect(to, until), key))
{
    introduce(until);
}

replica::fd_owner channel::connect(const target_settings &to, const replica::deadline &until) const
{
    replica::fd_owner connection;
    int error = 0, left = 0;
    const address_info found = resolve(to, until);
    for (const addrinfo *at = found.get(); at != nullptr; at = at->ai_next)
        ++left;
    for (const addrinfo *at = found.get(); at != nullptr; at = at->ai_next) {
        connection.reset(socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        // Limits the time of each address, so that an unresponsive one leaves time for the others.
        error = connection.valid() ? connect_to(connection.get(), *at, until.share(left--)) : errno;
        if (error == 0) {
            watch_peer(connection.get());
            return connection;
        }
    }
    throw failure(error == ETIMEDOUT ? RPMA_MIRROR_E_TIMEOUT : RPMA_MIRROR_E_CONNECTION,
            name_ + ": " + std::strerror(error) + " (is rpmemd --listen running there?)", error);
}

void channel::introduce(const replica::deadline &until)
{
    unique_lock lock(lock_);
    switch (connection_->shake_hands(until)) {
    case replica::handshake::complete:
        break;
    case replica::handshake::timed_out:
        broken(lock, RPMA_MIRROR_E_TIMEOUT, "did not respond in time");
    case replica::handshake::ended:
        broken(lock, RPMA_MIRROR_E_CONNECTION, "closed the connection");
    default:
        broken(lock, RPMA_MIRROR_E_REJECTED, connection_->failure());
    }
    replica::greeting greeting;
    const replica::received got = receive(*connection_, until, greeting);
    if (got == replica::received::other_version)
        broken(lock, RPMA_MIRROR_E_REJECTED,
                "uses another version of the protocol (install the same version on both sides)");
    if (got == replica::received::timed_out)
        broken(lock, RPMA_MIRROR_E_TIMEOUT, "did not respond in time");
    if (got == replica::received::message && greeting.error() != 0)
        broken(lock, RPMA_MIRROR_E_REJECTED, greeting.text());
    if (got != replica::received::message || greeting.features() != replica::feature_mirror)
        broken(lock, RPMA_MIRROR_E_REJECTED, "is not an rpmemd --listen");
}

void channel::broken(unique_lock &lock, int code, const std::string &message)
{
    if (!lock.owns_lock())
        lock.lock();
    broken_ = true;
    shutdown(fd(), SHUT_RDWR);
    changed_.notify_all();
    throw failure(code, name_ + ": " + message);
}

template<class F>
void channel::wait(unique_lock &lock, const replica::deadline &until, F condition)
{
    const int left = until.left_ms();
    if (left < 0)
        changed_.wait(lock, condition);
    else if (!changed_.wait_for(lock, std::chrono::milliseconds(left), condition))
        broken(lock, RPMA_MIRROR_E_TIMEOUT, "did not respond in time");
}

channel::pending_call::~pending_call()
{
    if (of_ == nullptr)
        return;
    const std::lock_guard lock(of_->lock_);
    const auto entry = std::ranges::find(of_->expected_, number_, &expected::number);
    if (entry == of_->expected_.end())
        return;
    entry->abandoned = true;
    if (entry->response)
        of_->expected_.erase(entry);
}

replica::response channel::call(replica::request request, const replica::deadline &until)
{
    return finish_call(start_call(std::move(request), until), until);
}

channel::pending_call channel::start_call(replica::request request, const replica::deadline &until)
{
    pending_call created;
    unique_lock lock(lock_);
    wait(lock, until, [this] { return !sending_ || broken_; });
    if (broken_)
        throw failure(RPMA_MIRROR_E_CONNECTION, name_ + ": closed the connection");
    request.set_number(number_ + 1);
    const std::string frame = replica::encode(request);
    created.of_ = this;
    created.number_ = ++number_;
    expected_.push_back({number_, request.body_case(), false, std::nullopt});
    sending_ = true;
    lock.unlock();
    const bool sent = send_message(*connection_, until, frame);
    lock.lock();
    sending_ = false;
    changed_.notify_all();
    if (!sent)
        broken(lock, RPMA_MIRROR_E_CONNECTION, "closed the connection");
    return created;
}

// Reads the next response, for any thread. A timeout closes the connection: a late response would block all later ones.
void channel::read_one(unique_lock &lock, const replica::deadline &until)
{
    reading_ = true;
    lock.unlock();
    replica::response response;
    const replica::received got = receive(*connection_, until, response);
    lock.lock();
    reading_ = false;
    changed_.notify_all();
    if (got == replica::received::timed_out)
        broken(lock, RPMA_MIRROR_E_TIMEOUT, "did not respond in time");
    if (got == replica::received::ended || got == replica::received::broken)
        broken(lock, RPMA_MIRROR_E_CONNECTION, "closed the connection");
    const auto next = std::ranges::find_if(expected_, [](const expected &e) { return !e.response; });
    if (got != replica::received::message || next == expected_.end() ||
            !replica::answers(response, next->number, next->kind))
        broken(lock, RPMA_MIRROR_E_REJECTED, "sent an invalid response");
    if (next->abandoned)
        expected_.erase(next);
    else
        next->response = std::move(response);
}

replica::response channel::finish_call(pending_call pending, const replica::deadline &until)
{
    unique_lock lock(lock_);
    const auto entry = std::ranges::find(expected_, pending.number_, &expected::number);
    while (!entry->response) {
        if (broken_)
            throw failure(RPMA_MIRROR_E_CONNECTION, name_ + ": closed the connection");
        if (!reading_)
            read_one(lock, until);
        else
            wait(lock, until, [&] { return entry->response || !reading_ || broken_; });
    }
    replica::response response = std::move(*entry->response);
    expected_.erase(entry);
    pending.of_ = nullptr;
    lock.unlock();
    const auto status = static_cast<replica::status>(response.status());
    if (status != replica::status::success)
        throw failure(code_of(status), name_ + ": " + response.text(), replica::errno_of(status));
    return response;
}

} // namespace mirror
