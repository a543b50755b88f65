// SPDX-License-Identifier: BSD-3-Clause
// Simulated sockets, events and poll functions, with the interfaces of the C library.
#include <arpa/inet.h>
#include <cerrno>
#include <cstring>
#include <netinet/in.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>

#include "channel/process.hpp"
#include "network.hpp"
#include "real.hpp"
#include "system.hpp"

using namespace simulation;

namespace
{

struct event : descriptor {
    short ready() const override { return count != 0 ? POLLIN | POLLOUT : POLLOUT; }
    std::uint64_t count = 0;
};

struct epoll : descriptor {
    short ready() const override { return 0; }
    std::map<int, epoll_event> watched;
};

template<class T>
T &the(int fd)
{
    return *dynamic_cast<T *>(world::instance->find(fd));
}

// Descriptor that ends when the peer of the channel closes it: standard error of ssh.
struct standard_error : descriptor {
    explicit standard_error(const network::socket &of) : channel(of.shared_from_this()) {}
    short ready() const override { return channel->gone || channel->ended || channel->error != 0 ? POLLHUP : 0; }
    const std::shared_ptr<const network::socket> channel;
};

// Returns the descriptor of a simulated process for its standard input or output.
int standard(int fd, const process &of)
{
    return (fd == STDIN_FILENO || fd == STDOUT_FILENO) && of.standard >= 0 ? of.standard : fd;
}

int fail(int error)
{
    errno = error;
    return -1;
}

std::shared_ptr<network::socket> new_socket(process &owner)
{
    const auto created = std::make_shared<network::socket>();
    created->over = net;
    created->owner = &owner;
    net->sockets.push_back(created);
    return created;
}

// Closes the socket when the process ends.
void close_with(process &owner, const std::weak_ptr<network::socket> &weak)
{
    owner.at_end.push_back([weak](bool power) {
        if (const auto s = weak.lock())
            s->shut(!power);
    });
}

void send_to(network::socket &from, unsigned machine)
{
    from.out = std::make_shared<direction>(*net, from.owner->machine, machine, net->user_timeout);
    from.out->given_up = [weak = from.weak_from_this()] {
        if (const auto s = weak.lock())
            s->fail(ETIMEDOUT);
    };
}

// Creates the server's end of the connection, and a descriptor in its process.
void connect_to(network::socket &client, unsigned machine)
{
    process *const server = net->servers[machine];
    const std::shared_ptr<network::socket> here = client.shared_from_this();
    const unsigned from = client.owner->machine;
    send_to(client, machine);
    here->out->send([weak = std::weak_ptr(here), server, from, machine] {
        const auto s = weak.lock();
        if (!s || s->gone)
            return;
        if (server == nullptr || !server->alive || net->servers[machine] != server)
            return s->fail(ECONNREFUSED);
        const auto created = new_socket(*server);
        created->other = s;
        created->connected = true;
        send_to(*created, from);
        s->other = created;
        const int fd = net->in.add(*server, created);
        close_with(*server, created);
        created->out->send([s] {
            s->connected = true;
            s->touch();
        });
        server->accept(fd);
    });
}

} // namespace

extern "C" {

int eventfd(unsigned initial, int flags) noexcept
{
    if (!inside())
        return REAL(eventfd)(initial, flags);
    const auto created = std::make_shared<event>();
    created->count = initial;
    return world::instance->add(world::instance->here(), created);
}

int eventfd_write(int fd, eventfd_t value)
{
    if (!world::is_ours(fd))
        return REAL(eventfd_write)(fd, value);
    the<event>(fd).count += value;
    world::instance->touch(world::instance->here());
    return 0;
}

int eventfd_read(int fd, eventfd_t *value)
{
    if (!world::is_ours(fd))
        return REAL(eventfd_read)(fd, value);
    *value = std::exchange(the<event>(fd).count, 0);
    return *value != 0 ? 0 : fail(EAGAIN);
}

int poll(pollfd *fds, nfds_t n, int timeout)
{
    if (!inside())
        return REAL(poll)(fds, n, timeout);
    world &in = *world::instance;
    int found = 0;
    const process &here = in.here();
    const auto collect_ready = [&] {
        found = 0;
        for (nfds_t i = 0; i < n; ++i) {
            const descriptor *const d = in.find(standard(fds[i].fd, here));
            fds[i].revents = d == nullptr ? short{0} : static_cast<short>(d->ready() & (fds[i].events | POLLHUP));
            found += fds[i].revents != 0;
        }
        return found != 0;
    };
    in.perhaps_switch();
    in.wait(collect_ready, timeout < 0 ? -1 : timeout * ms);
    return found;
}

// No process requests the parts of another one.
int signalfd(int fd, const sigset_t *signals, int flags) noexcept
{
    return inside() ? eventfd(0, 0) : REAL(signalfd)(fd, signals, flags);
}

int epoll_create1(int flags) noexcept
{
    return inside() ? world::instance->add(world::instance->here(), std::make_shared<epoll>())
                    : REAL(epoll_create1)(flags);
}

int epoll_ctl(int fd, int operation, int about, epoll_event *wanted) noexcept
{
    if (!inside())
        return REAL(epoll_ctl)(fd, operation, about, wanted);
    if (operation == EPOLL_CTL_DEL)
        the<epoll>(fd).watched.erase(about);
    else
        the<epoll>(fd).watched[about] = *wanted;
    world::instance->touch(world::instance->here());
    return 0;
}

int epoll_wait(int fd, epoll_event *to, int max_events, int timeout)
{
    if (!inside())
        return REAL(epoll_wait)(fd, to, max_events, timeout);
    world &in = *world::instance;
    epoll &of = the<epoll>(fd);
    int found = 0;
    const auto collect_ready = [&] {
        found = 0;
        for (auto at = of.watched.begin(); at != of.watched.end() && found < max_events;) {
            const descriptor *const d = in.find(at->first);
            if (d == nullptr) {
                at = of.watched.erase(at); // the descriptor was closed
                continue;
            }
            if ((d->ready() & POLLIN) != 0)
                to[found++] = at->second;
            ++at;
        }
        return found != 0;
    };
    in.perhaps_switch();
    in.wait(collect_ready, timeout < 0 ? -1 : timeout * ms);
    return found;
}

int socket(int domain, int type, int protocol) noexcept
{
    if (!inside())
        return REAL(socket)(domain, type, protocol);
    process &here = world::instance->here();
    const auto created = new_socket(here);
    close_with(here, created);
    return world::instance->add(here, created);
}

int connect(int fd, const sockaddr *to, socklen_t size)
{
    if (!inside())
        return REAL(connect)(fd, to, size);
    char text[INET_ADDRSTRLEN]{};
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in *>(to)->sin_addr, text, sizeof(text));
    const int machine = machine_of(text);
    if (machine < 0)
        return fail(ENETUNREACH);
    connect_to(the<network::socket>(fd), static_cast<unsigned>(machine));
    return fail(EINPROGRESS);
}

int bind(int fd, const sockaddr *address, socklen_t size) noexcept
{
    return inside() ? 0 : REAL(bind)(fd, address, size);
}

// Called to read the number of a port that was assigned automatically.
int getsockname(int fd, sockaddr *to, socklen_t *size) noexcept
{
    if (!inside())
        return REAL(getsockname)(fd, to, size);
    auto &address = *reinterpret_cast<sockaddr_in *>(to);
    address.sin_family = AF_INET;
    address.sin_port = htons(++net->next_port);
    return 0;
}

int getsockopt(int fd, int level, int option, void *to, socklen_t *size) noexcept
{
    if (!inside())
        return REAL(getsockopt)(fd, level, option, to, size);
    *static_cast<int *>(to) = the<network::socket>(fd).error;
    return 0;
}

int setsockopt(int fd, int level, int option, const void *from, socklen_t size) noexcept
{
    return inside() ? 0 : REAL(setsockopt)(fd, level, option, from, size);
}

ssize_t read(int fd, void *to, size_t size)
{
    if (inside())
        fd = standard(fd, world::instance->here());
    if (!inside() || !world::is_ours(fd))
        return REAL(read)(fd, to, size);
    if (dynamic_cast<network::socket *>(world::instance->find(fd)) == nullptr)
        return fail(EAGAIN);
    auto &s = the<network::socket>(fd);
    if (s.error != 0)
        return fail(s.error);
    if (s.bytes.empty())
        return s.ended || s.gone ? 0 : fail(EAGAIN);
    const size_t got = s.bytes.copy(static_cast<char *>(to), size);
    s.bytes.erase(0, got);
    return static_cast<ssize_t>(got);
}

ssize_t recv(int fd, void *to, size_t size, int flags)
{
    return inside() && world::is_ours(fd) ? read(fd, to, size) : REAL(recv)(fd, to, size, flags);
}

ssize_t send(int fd, const void *from, size_t size, int flags)
{
    if (!inside())
        return REAL(send)(fd, from, size, flags);
    auto &s = the<network::socket>(standard(fd, world::instance->here()));
    if (s.error != 0 || s.ended || s.gone)
        return fail(s.error != 0 ? s.error : EPIPE);
    const std::string text(static_cast<const char *>(from), size);
    message_sent(s, text);
    s.out->send([peer = s.other, self = s.weak_from_this(), text] {
        const auto p = peer.lock();
        if (p && !p->gone) {
            p->bytes += text;
            p->touch();
        } else if (const auto own = self.lock()) {
            own->fail(ECONNRESET);
        }
    });
    world::instance->perhaps_switch();
    return static_cast<ssize_t>(size);
}

int shutdown(int fd, int how) noexcept
{
    if (!inside())
        return REAL(shutdown)(fd, how);
    auto &s = the<network::socket>(fd);
    s.shut(true);
    s.ended = true;
    s.touch();
    return 0;
}

int close(int fd)
{
    if (!world::is_ours(fd)) {
        if (inside())
            world::instance->here().files.erase(fd);
        return REAL(close)(fd);
    }
    if (world::instance != nullptr)
        world::instance->close(fd);
    return 0;
}

} // extern "C"

// A connection of ssh, which starts a session at the machine whose address is one of the words.
namespace replica
{

int process::start(char *const arguments[])
{
    while (machine_of(*arguments) < 0)
        ++arguments;
    channel_.reset(::socket(AF_INET, SOCK_STREAM, 0));
    sockaddr_in to{};
    inet_pton(AF_INET, *arguments, &to.sin_addr);
    ::connect(channel_.get(), reinterpret_cast<const sockaddr *>(&to), sizeof(to));
    messages_.reset(world::instance->add(
            world::instance->here(), std::make_shared<standard_error>(the<network::socket>(channel_.get()))));
    return 0;
}

void process::kill()
{
    if (channel_.valid())
        ::shutdown(channel_.get(), SHUT_RDWR);
}

void process::finish(const deadline &)
{
    channel_.reset();
    messages_.reset();
}

int process::run(char *const[], int)
{
    return fail(ENOSYS);
}

} // namespace replica

void network::hand_over(int fd, process &to)
{
    in.move(fd, to);
    auto &s = the<socket>(fd);
    s.owner = &to;
    to.standard = fd;
    close_with(to, s.weak_from_this());
}

void simulation::close_file(int fd)
{
    REAL(close)(fd);
}
