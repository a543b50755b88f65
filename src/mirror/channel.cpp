// SPDX-License-Identifier: BSD-3-Clause
#include "channel.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "failure.hpp"
#include "resolver.hpp"

namespace mirror
{

namespace
{

int digit_of(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

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

replica::mirror_key read_key(const std::string &path)
{
    const replica::fd_owner file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    struct stat found {
    };
    if (!file.valid() || fstat(file.get(), &found) != 0)
        throw system_failure("cannot read the key " + path);
    if ((found.st_mode & (S_IRWXG | S_IRWXO)) != 0)
        throw failure(RPMA_MIRROR_E_SYSTEM, "key " + path + ": accessible to other users (chmod 600)", EACCES);
    replica::mirror_key key{};
    char text[2 * sizeof(key) + 2]{};
    const ssize_t size = read(file.get(), text, sizeof(text));
    bool valid = size == 2 * sizeof(key) || (size == 2 * sizeof(key) + 1 && text[2 * sizeof(key)] == '\n');
    for (std::size_t i = 0; valid && i < key.size(); ++i) {
        const int high = digit_of(text[2 * i]), low = digit_of(text[2 * i + 1]);
        valid = high >= 0 && low >= 0;
        key[i] = static_cast<std::byte>(high * 16 + low);
    }
    explicit_bzero(text, sizeof(text));
    if (!valid)
        throw failure(RPMA_MIRROR_E_SYSTEM,
                path + ": does not contain 64 hexadecimal digits (create it with openssl rand -hex 32)", EBADMSG);
    return key;
}

channel::channel(const target_settings &to, const replica::mirror_key &key, const replica::deadline &until)
    : name_("target " + to.name())
{
    connect(to, until);
    introduce(key, until);
}

void channel::connect(const target_settings &to, const replica::deadline &until)
{
    int error = 0, left = 0;
    const address_info found = resolve(to, until);
    for (const addrinfo *at = found.get(); at != nullptr; at = at->ai_next)
        ++left;
    for (const addrinfo *at = found.get(); at != nullptr; at = at->ai_next) {
        connection_.reset(socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        // Limits the time of each address, so that an unresponsive one leaves time for the others.
        error = connection_.valid() ? connect_to(connection_.get(), *at, until.share(left--)) : errno;
        if (error == 0)
            return watch_peer(connection_.get());
    }
    throw failure(error == ETIMEDOUT ? RPMA_MIRROR_E_TIMEOUT : RPMA_MIRROR_E_CONNECTION,
            name_ + ": " + std::strerror(error) + " (is rpmemd --listen running there?)", error);
}

void channel::introduce(const replica::mirror_key &key, const replica::deadline &until)
{
    hold held(lock_);
    replica::greeting greeting;
    const replica::received got = receive(connection_.get(), until, greeting);
    if (got == replica::received::other_version)
        broken(held, RPMA_MIRROR_E_REJECTED,
                "uses another version of the protocol (install the same version on both sides)");
    if (got == replica::received::timed_out)
        broken(held, RPMA_MIRROR_E_TIMEOUT, "did not respond in time");
    if (got != replica::received::message || greeting.error() != 0 || greeting.features() != replica::feature_mirror)
        broken(held, RPMA_MIRROR_E_REJECTED, "is not an rpmemd --listen, or has too many clients");
    held.unlock();
    replica::request r;
    r.mutable_challenge();
    const auto challenge = replica::array_of<replica::siphash_result>(ask(r, until).challenge());
    r.mutable_prove()->set_proof(replica::bytes_of(replica::prove_key(key, challenge)));
    try {
        ask(r, until);
    } catch (const failure &problem) {
        if (problem.code() == RPMA_MIRROR_E_CONNECTION)
            broken(held, RPMA_MIRROR_E_REJECTED, "has another key");
        throw;
    }
}

void channel::broken(hold &held, int code, const char *what)
{
    if (!held.owns_lock())
        held.lock();
    broken_ = true;
    shutdown(connection_.get(), SHUT_RDWR);
    changed_.notify_all();
    throw failure(code, name_ + " " + what);
}

template<class F>
void channel::wait(hold &held, const replica::deadline &until, F condition)
{
    const int left = until.left_ms();
    if (left < 0)
        changed_.wait(held, condition);
    else if (!changed_.wait_for(held, std::chrono::milliseconds(left), condition))
        broken(held, RPMA_MIRROR_E_TIMEOUT, "did not respond in time");
}

channel::question::~question()
{
    if (of_ == nullptr)
        return;
    const std::lock_guard held(of_->lock_);
    const auto entry = std::ranges::find(of_->expected_, number_, &expected::number);
    if (entry == of_->expected_.end())
        return;
    entry->abandoned = true;
    if (entry->response)
        of_->expected_.erase(entry);
}

replica::response channel::ask(replica::request asked, const replica::deadline &until)
{
    return finish(begin(std::move(asked), until), until);
}

channel::question channel::begin(replica::request asked, const replica::deadline &until)
{
    question created;
    hold held(lock_);
    wait(held, until, [this] { return !sending_ || broken_; });
    if (broken_)
        throw failure(RPMA_MIRROR_E_CONNECTION, name_ + " closed the connection");
    asked.set_number(number_ + 1);
    const std::string frame = replica::encode(asked);
    created.of_ = this;
    created.number_ = ++number_;
    expected_.push_back({number_, asked.body_case(), false, std::nullopt});
    sending_ = true;
    held.unlock();
    const bool sent = send_message(connection_.get(), until, frame);
    held.lock();
    sending_ = false;
    changed_.notify_all();
    if (!sent)
        broken(held, RPMA_MIRROR_E_CONNECTION, "closed the connection");
    return created;
}

// Reads the next response, for any of the threads. After a timeout the connection is closed, because a late response
// would block all later ones.
void channel::read_one(hold &held, const replica::deadline &until)
{
    reading_ = true;
    held.unlock();
    replica::response response;
    const replica::received got = receive(connection_.get(), until, response);
    held.lock();
    reading_ = false;
    changed_.notify_all();
    if (got == replica::received::timed_out)
        broken(held, RPMA_MIRROR_E_TIMEOUT, "did not respond in time");
    if (got == replica::received::ended || got == replica::received::broken)
        broken(held, RPMA_MIRROR_E_CONNECTION, "closed the connection");
    const auto next = std::ranges::find_if(expected_, [](const expected &e) { return !e.response; });
    if (got != replica::received::message || next == expected_.end() ||
            !replica::answers(response, next->number, next->kind))
        broken(held, RPMA_MIRROR_E_REJECTED, "sent an invalid response");
    if (next->abandoned)
        expected_.erase(next);
    else
        next->response = std::move(response);
}

replica::response channel::finish(question asked, const replica::deadline &until)
{
    hold held(lock_);
    const auto entry = std::ranges::find(expected_, asked.number_, &expected::number);
    while (!entry->response) {
        if (broken_)
            throw failure(RPMA_MIRROR_E_CONNECTION, name_ + " closed the connection");
        if (!reading_)
            read_one(held, until);
        else
            wait(held, until, [&] { return entry->response || !reading_ || broken_; });
    }
    replica::response response = std::move(*entry->response);
    expected_.erase(entry);
    asked.of_ = nullptr;
    held.unlock();
    const auto status = static_cast<replica::status>(response.status());
    if (status != replica::status::success)
        throw failure(code_of(status), name_ + ": " + response.text(), replica::errno_of(status));
    return response;
}

} // namespace mirror
