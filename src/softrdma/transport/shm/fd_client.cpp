// SPDX-License-Identifier: BSD-3-Clause
#include "transport/shm/fd_client.hpp"
#include "base/log.hpp"
#include "base/own_descriptors.hpp"
#include "base/settings.hpp"
#include "progress/event_loop.hpp"
#include "transport/shm/fd_message.hpp"
#include "transport/shm/file_mapping.hpp"
#include "base/process.hpp"

#include <cerrno>
#include <poll.h>
#include <sys/epoll.h>

namespace softrdma
{

namespace
{

// Timeout of a request. The connection then uses the network, for which the other half of the time is left.
std::chrono::milliseconds response_timeout()
{
    return settings().response_timeout / 2;
}

// Returns the kind of the next reply, which stays in the socket.
reception upcoming(int socket, fd_request_kind &kind) noexcept
{
    fd_reply g;
    const ssize_t n = recv(socket, &g, sizeof(g), MSG_DONTWAIT | MSG_PEEK | MSG_TRUNC);
    kind = g.kind;
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return reception::nothing;
    return n == static_cast<ssize_t>(sizeof(g)) ? reception::message : reception::end;
}

class fd_client : public event_handler, public peer_line, public std::enable_shared_from_this<fd_client>
{
public:
    fd_client(unique_fd socket, std::uint32_t owner, const token_bytes &token, std::function<void(handover)> done)
        : socket_(std::move(socket)), owner_(owner), token_(token), done_(std::move(done))
    {
    }

    bool begin(std::int32_t completion_fd);
    poll_result ready(std::uint32_t) override
    {
        take_replies();
        return poll_result::progress;
    }
    void out_of_memory() noexcept override;
    void fail_request(); // unless a response has arrived

    void serve(std::weak_ptr<peer_process> requester) override;
    bool request_file(std::uint32_t key, std::uint64_t generation) override
    {
        return send_request({.token = {}, .kind = fd_request_kind::file, .generation = generation, .key = key});
    }
    bool broken() const noexcept override;
    void leave() { event_loop::get()->unwatch(watch_.load()); }

private:
    bool send_request(fd_request w) const noexcept;
    void take_replies();
    void take_arena(const std::function<void(handover)> &done, received_fds fds) EXCLUDES(mutex_);
    void take_file() REQUIRES(mutex_);

    const process::watched_fd socket_;
    const std::uint32_t owner_; // the process at the other end
    const token_bytes token_;
    std::atomic<event_loop::watch_id> watch_{0};
    ordered_mutex mutex_{lock_level::events};
    std::function<void(handover)> done_ GUARDED_BY(mutex_); // cleared when it is called
    std::weak_ptr<peer_process> requester_ GUARDED_BY(mutex_);
};

bool fd_client::begin(std::int32_t completion_fd)
{
    if (!send_request({.token = {}, .kind = fd_request_kind::arena, .completion_fd = completion_fd}))
        return false;
    const lock_guard lock(mutex_);
    watch_ = event_loop::get()->watch(socket_.get(), EPOLLIN, shared_from_this());
    if (watch_ == 0)
        return false;
    event_loop::get()->after(response_timeout(), [weak = weak_from_this()] {
        if (const auto self = weak.lock())
            self->fail_request();
    });
    return true;
}

void fd_client::take_replies()
{
    unique_lock lock(mutex_);
    for (;;) {
        fd_request_kind kind{};
        const reception r = upcoming(socket_.get(), kind);
        if (r == reception::nothing)
            return;
        if (r == reception::end)
            break;
        if (kind == fd_request_kind::file || done_ == nullptr) {
            take_file();
            continue;
        }
        fd_reply g;
        received_fds fds;
        if (receive(socket_.get(), g, fds) != reception::message)
            break;
        const auto done = std::exchange(done_, nullptr);
        lock.unlock();
        return take_arena(done, std::move(fds));
    }
    lock.unlock();
    leave();
    fail_request();
}

// Receives a requested file, in a private descriptor table (see with_own_descriptors()).
void fd_client::take_file()
{
    const auto requester = requester_.lock();
    const bool taken = with_own_descriptors([&] {
        fd_reply g;
        received_fds fds;
        if (receive(socket_.get(), g, fds) == reception::message && g.kind == fd_request_kind::file &&
                requester != nullptr)
            requester->take_file(g.key, g.generation, {std::move(fds[0]), g.offset});
    });
    if (!taken)
        recv(socket_.get(), nullptr, 0, MSG_DONTWAIT); // drops the descriptors without installing them
}

void fd_client::take_arena(const std::function<void(handover)> &done, received_fds fds)
{
    if (!is_event_descriptor(fds[1].get()))
        fds[1] = unique_fd();
    std::shared_ptr<peer_line> line; // ends the watch with its last reference
    try {
        line = {static_cast<peer_line *>(this), [self = shared_from_this()](peer_line *) { self->leave(); }};
    } catch (const std::bad_alloc &) {
        leave();
        return done({});
    }
    done({std::move(fds[0]), std::move(fds[1]), std::move(line), owner_});
}

void fd_client::out_of_memory() noexcept
{
    leave();
    try {
        fail_request();
    } catch (const std::bad_alloc &) {
        log::write(log::level::error, "request for descriptors: not answered: out of memory (it times out)");
    }
}

void fd_client::fail_request()
{
    unique_lock lock(mutex_);
    const auto done = std::exchange(done_, nullptr);
    lock.unlock();
    if (done == nullptr)
        return;
    leave();
    done({});
}

void fd_client::serve(std::weak_ptr<peer_process> requester)
{
    const lock_guard lock(mutex_);
    requester_ = std::move(requester);
}

bool fd_client::send_request(fd_request w) const noexcept
{
    w.token = token_;
    return send_message(socket_.get(), w);
}

bool fd_client::broken() const noexcept
{
    pollfd end{.fd = socket_.get(), .events = POLLRDHUP, .revents = 0};
    return ::poll(&end, 1, 0) > 0;
}

} // namespace

// Messages of the other process are used only after the kernel has confirmed that it belongs to the same user.
no_shm_reason request_fds(const shm_address &h, std::function<void(handover)> done)
{
    const fd_server_address address(h.fd_server);
    unique_fd socket = open_local_socket();
    if (h.fd_server == 0 || socket.get() < 0)
        return no_shm_reason::denied;
    if (connect(socket.get(), address.get(), address.size) != 0)
        return errno == ECONNREFUSED ? no_shm_reason::network : no_shm_reason::denied;
    const auto owner = process_of_own_user(socket.get());
    if (!owner)
        return no_shm_reason::user;
    const auto client = std::make_shared<fd_client>(std::move(socket), *owner, h.token, std::move(done));
    return client->begin(h.completion_fd) ? no_shm_reason::none : no_shm_reason::denied;
}

} // namespace softrdma
