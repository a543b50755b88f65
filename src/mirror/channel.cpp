// SPDX-License-Identifier: BSD-3-Clause
#include "channel.hpp"

#include <chrono>
#include <cstring>
#include <fcntl.h>
#include <memory>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include "failure.hpp"

namespace mirror
{

namespace
{

int digit_of(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

struct address_info_deleter {
    void operator()(addrinfo *info) const { freeaddrinfo(info); }
};
using address_info = std::unique_ptr<addrinfo, address_info_deleter>;

address_info resolve(const target_settings &to)
{
    addrinfo wanted{};
    wanted.ai_flags = AI_NUMERICSERV;
    wanted.ai_socktype = SOCK_STREAM;
    addrinfo *found = nullptr;
    if (const int error = getaddrinfo(to.address.c_str(), to.port.c_str(), &wanted, &found); error != 0)
        throw failure(RPMA_MIRROR_E_LINK, "target " + to.name() + ": " + gai_strerror(error));
    return address_info(found);
}

// A target's machine that vanished is noticed within a quarter of a minute.
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

// 0 or an errno.
int connect_to(int fd, const addrinfo &at, const replica::deadline &until)
{
    if (::connect(fd, at.ai_addr, at.ai_addrlen) == 0)
        return 0;
    if (errno != EINPROGRESS)
        return errno;
    pollfd poller{fd, POLLOUT, 0};
    while (poll(&poller, 1, until.left_ms()) < 0 && errno == EINTR) {
    }
    int error = ETIMEDOUT;
    socklen_t size = sizeof(error);
    if (poller.revents != 0)
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
        return RPMA_MIRROR_E_MISSING;
    case replica::status::busy:
        return RPMA_MIRROR_E_BUSY;
    default:
        return RPMA_MIRROR_E_TARGET;
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
        throw failure(RPMA_MIRROR_E_SYSTEM, "others may use the key " + path + ": chmod 600 it", EACCES);
    replica::mirror_key key{};
    char text[2 * sizeof(key) + 2]{};
    const ssize_t size = read(file.get(), text, sizeof(text));
    bool good = size == 2 * sizeof(key) || (size == 2 * sizeof(key) + 1 && text[2 * sizeof(key)] == '\n');
    for (std::size_t i = 0; good && i < key.size(); ++i) {
        const int high = digit_of(text[2 * i]), low = digit_of(text[2 * i + 1]);
        good = high >= 0 && low >= 0;
        key[i] = static_cast<std::byte>(high * 16 + low);
    }
    explicit_bzero(text, sizeof(text));
    if (!good)
        throw failure(RPMA_MIRROR_E_SYSTEM,
                path + " does not have 64 hexadecimal digits: openssl rand -hex 32 makes them", EBADMSG);
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
    int error = 0;
    const address_info found = resolve(to);
    for (const addrinfo *at = found.get(); at != nullptr; at = at->ai_next) {
        connection_.reset(socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
        error = connection_.valid() ? connect_to(connection_.get(), *at, until) : errno;
        if (error == 0)
            return watch_peer(connection_.get());
    }
    throw failure(error == ETIMEDOUT ? RPMA_MIRROR_E_TIMEOUT : RPMA_MIRROR_E_LINK,
            name_ + ": " + std::strerror(error) + ": is rpmemd --listen running there?", error);
}

void channel::introduce(const replica::mirror_key &key, const replica::deadline &until)
{
    replica::greeting greeting;
    const replica::received got = receive(connection_.get(), until, buffer_, greeting);
    if (got == replica::received::other_version)
        broken(RPMA_MIRROR_E_TARGET, "speaks another version of the protocol");
    if (got == replica::received::timed_out)
        broken(RPMA_MIRROR_E_TIMEOUT, "did not answer in time");
    if (got != replica::received::message || greeting.error != 0 || greeting.features != replica::feature_mirror)
        broken(RPMA_MIRROR_E_TARGET, "is no rpmemd --listen, or has too many clients");
    replica::request r;
    r.type = replica::request_type::mirror_challenge;
    r.proof = replica::prove_key(key, ask(r, until).challenge);
    r.type = replica::request_type::mirror_prove;
    try {
        ask(r, until);
    } catch (const failure &problem) {
        if (problem.code() == RPMA_MIRROR_E_LINK)
            broken(RPMA_MIRROR_E_TARGET, "has another key");
        throw;
    }
}

void channel::broken(int code, const char *what)
{
    broken_ = true;
    shutdown(connection_.get(), SHUT_RDWR);
    throw failure(code, name_ + " " + what);
}

replica::answer channel::ask(replica::request asked, const replica::deadline &until)
{
    begin(asked, until);
    return finish(until);
}

void channel::take_turn(const replica::deadline &until)
{
    std::unique_lock hold(lock_);
    const auto is_free = [this] { return !taken_; };
    const int left = until.left_ms();
    if (left < 0)
        free_.wait(hold, is_free);
    else if (!free_.wait_for(hold, std::chrono::milliseconds(left), is_free))
        throw failure(RPMA_MIRROR_E_TIMEOUT, name_ + " did not answer in time");
    taken_ = true;
}

channel::turn::~turn()
{
    if (of == nullptr)
        return;
    {
        const std::lock_guard hold(of->lock_);
        of->taken_ = false;
    }
    of->free_.notify_one();
}

void channel::begin(replica::request asked, const replica::deadline &until)
{
    take_turn(until);
    turn mine{this};
    if (broken_)
        throw failure(RPMA_MIRROR_E_LINK, name_ + " closed the connection");
    asked.number = ++number_;
    asked_ = asked.type;
    if (!send_message(connection_.get(), until, encode(asked)))
        broken(RPMA_MIRROR_E_LINK, "closed the connection");
    mine.of = nullptr; // it goes on with finish()
}

// What comes later than the deadline would be taken for the next answer: nothing follows it.
replica::answer channel::finish(const replica::deadline &until)
{
    const turn mine{this};
    replica::answer answer;
    const replica::received got = receive(connection_.get(), until, buffer_, answer);
    if (got == replica::received::timed_out)
        broken(RPMA_MIRROR_E_TIMEOUT, "did not answer in time");
    if (got == replica::received::ended || got == replica::received::broken)
        broken(RPMA_MIRROR_E_LINK, "closed the connection");
    if (got != replica::received::message || answer.number != number_ || answer.type != asked_)
        broken(RPMA_MIRROR_E_TARGET, "answered what is not understood");
    if (answer.status != replica::status::success)
        throw failure(code_of(answer.status), name_ + ": " + answer.text.c_str(), replica::errno_of(answer.status));
    return answer;
}

} // namespace mirror
