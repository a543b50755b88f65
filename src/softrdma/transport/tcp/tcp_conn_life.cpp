// SPDX-License-Identifier: BSD-3-Clause
#include "base/descriptors.hpp"
#include "base/log.hpp"
#include "base/socket_address.hpp"
#include "transport/tcp/tcp_conn.hpp"
#include "transport/tcp/tcp_socket.hpp"

#include <cerrno>
#include <poll.h>
#include <sys/socket.h>
#include <utility>

namespace softrdma
{

constexpr auto finish_time = std::chrono::seconds(2);

// Makes a call, and cuts the connection if memory is exhausted: a user would wait for the effect of the call forever.
template<typename Call>
void tcp_conn::or_cut(Call call) noexcept
{
    try {
        call();
    } catch (const std::bad_alloc &) {
        log::write(log::level::error, "connection: cut: out of memory");
        cut();
    }
}

std::shared_ptr<tcp_conn> tcp_conn::open(int fd, role r, tcp_conn_user &user)
{
    auto l = std::make_shared<tcp_conn>(unique_fd(fd), r, user);
    descriptors::opened(fd);
    tcp_socket::prepare(fd);
    if (r == role::accepted)
        tcp_socket::use_all_of_host(fd);
    event_loop *a = event_loop::get();
    const std::uint32_t events = r == role::connecting ? EPOLLOUT : EPOLLIN | EPOLLRDHUP;
    const lock_guard lock(l->mutex_);
    if (a == nullptr || (l->watch_ = a->watch(fd, events, l)) == 0)
        return nullptr;
    return l;
}

void tcp_conn::bind(std::shared_ptr<packet_receiver> receiver, std::uint32_t local_qpn)
{
    const lock_guard lock(mutex_);
    if (closed_)
        return;
    receiver_.swap(receiver); // the former one may be destroyed with its last reference, after the lock is released
    local_qpn_ = local_qpn;
}

void tcp_conn::update_watch()
{
    reads_.store(!closed_ && !connecting_ && !held_ && !finishing_, std::memory_order_release);
    if (closed_ || lost())
        return;
    std::uint32_t events = held_ || finishing_ ? 0 : EPOLLIN | EPOLLRDHUP;
    if (blocked_)
        events |= EPOLLOUT;
    event_loop::get()->change(watch_, events);
}

void tcp_conn::hold()
{
    const lock_guard lock(mutex_);
    held_ = true;
    update_watch();
}

void tcp_conn::unhold()
{
    const lock_guard lock(mutex_);
    held_ = false;
    update_watch();
    // Data read before the hold is in the buffer, so the socket does not report it.
    or_cut([this] {
        event_loop::get()->after(std::chrono::microseconds(0), [weak = weak_from_this()] {
            if (const auto self = weak.lock())
                self->or_cut([&] {
                    const lock_guard reading(self->read_mutex_);
                    self->serve(0);
                });
        });
    });
}

void tcp_conn::start_timer(std::chrono::microseconds delay)
{
    or_cut([&] { timer_.start(weak_from_this(), delay); });
}

void tcp_conn::start_response_timer(std::chrono::microseconds delay)
{
    or_cut([&] {
        event_loop::get()->after(delay, [weak = weak_from_this()] {
            const auto self = weak.lock();
            if (const auto receiver = self == nullptr ? nullptr : self->bound(); receiver != nullptr)
                self->or_cut([&] { receiver->response_timer_expired(); });
        });
    });
}

void tcp_conn::finish_connecting()
{
    int error = 0;
    socklen_t size = sizeof(error);
    getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error == 0 && tcp_socket::is_connected_to_itself(fd_.get()))
        error = ECONNREFUSED;
    if (error != 0)
        return drop(error);
    if (becomes_connected(true))
        user_.connected(shared_from_this());
}

bool tcp_conn::becomes_connected(bool blocked) // false if it is connected already
{
    tcp_socket::use_all_of_host(fd_.get());
    const lock_guard lock(mutex_);
    if (!std::exchange(connecting_, false))
        return false;
    blocked_ = blocked;
    update_watch();
    return true;
}

bool tcp_conn::connects_at_once()
{
    pollfd connected{.fd = fd_.get(), .events = POLLOUT, .revents = 0};
    return ::poll(&connected, 1, 0) == 1 && connected.revents == POLLOUT &&
           !tcp_socket::is_connected_to_itself(fd_.get()) && becomes_connected(false);
}

void tcp_conn::cut() noexcept
{
    shutdown(fd_.get(), SHUT_RDWR); // the reader detects and reports the loss
}

void tcp_conn::ends(sockaddr_storage &local, sockaddr_storage &remote) const
{
    const auto addresses = tcp_socket::addresses_of(fd_.get());
    local = addresses.local;
    remote = addresses.remote;
}

void tcp_conn::drop(int error)
{
    if (lost_.exchange(true, std::memory_order_acq_rel))
        return;
    if (error == EPROTO)
        log::write(log::level::warn, "peer %s: protocol violation: connection closed",
                text_of(tcp_socket::addresses_of(fd_.get()).remote).data());
    std::shared_ptr<packet_receiver> receiver;
    {
        const lock_guard lock(mutex_);
        receiver = disconnect();
    }
    user_.lost(shared_from_this(), receiver, error);
}

// The caller releases the receiver without the lock: the destruction of a queue pair takes locks that precede it.
std::shared_ptr<packet_receiver> tcp_conn::disconnect()
{
    if (closed_)
        return nullptr;
    closed_ = true;
    reads_.store(false, std::memory_order_release);
    lost_.store(true, std::memory_order_release);
    shutdown(fd_.get(), SHUT_RDWR);
    event_loop::get()->unwatch(watch_);
    return std::move(receiver_);
}

void tcp_conn::finish()
{
    std::shared_ptr<packet_receiver> released; // released after the lock
    const lock_guard lock(mutex_);
    if (closed_ || finishing_)
        return;
    try {
        if (receiver_ != nullptr) // it may be reading right now: notified later, without this lock
            event_loop::get()->after(std::chrono::microseconds(0),
                    [receiver = receiver_, self = shared_from_this()] { receiver->path_lost(*self); });
    } catch (const std::bad_alloc &) {
        return cut(); // the reader notifies it
    }
    if (connecting_ || (!blocked_ && push_output())) {
        released = disconnect();
        return;
    }
    finishing_ = true;
    wait_for_send_space();
    or_cut([this] {
        event_loop::get()->after(finish_time, [weak = weak_from_this()] {
            if (const auto self = weak.lock()) {
                std::shared_ptr<packet_receiver> last;
                const lock_guard relock(self->mutex_);
                last = self->disconnect();
            }
        });
    });
}

} // namespace softrdma
