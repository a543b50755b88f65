// SPDX-License-Identifier: BSD-3-Clause
#include "progress/listener.hpp"
#include "base/log.hpp"

#include "base/descriptors.hpp"

#include <algorithm>
#include <cerrno>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <utility>

namespace softrdma
{

std::shared_ptr<listener> listener::open(int fd, int backlog, receiver accepted)
{
    auto l = std::make_shared<listener>(unique_fd(fd), std::move(accepted));
    if (::listen(fd, backlog) != 0)
        return nullptr;
    l->watch_ = event_loop::get()->watch(fd, EPOLLIN, l);
    return l->watch_ == 0 ? nullptr : l;
}

void listener::close()
{
    event_loop::get()->unwatch(watch_);
    shutdown(fd_.get(), SHUT_RDWR); // rejects connections immediately, even while the progress thread holds a reference
}

void listener::suspend()
{
    const lock_guard lock(mutex_);
    if (!std::exchange(suspended_, true))
        log::write(log::level::info, "listener: suspended: requests wait for the program (accept or reject them)");
    event_loop::get()->change(watch_, 0);
}

void listener::resume()
{
    const lock_guard lock(mutex_);
    if (!std::exchange(suspended_, false))
        return;
    log::write(log::level::debug, "listener: resumed");
    event_loop::get()->change(watch_, EPOLLIN);
}

void listener::pause(std::chrono::milliseconds duration)
{
    constexpr std::chrono::milliseconds between_checks(10); // peers leave the list when their first message has arrived
    const lock_guard lock(mutex_);
    try {
        event_loop::get()->after(std::min(duration, between_checks), [weak = weak_from_this()] {
            if (const auto self = weak.lock())
                self->watch_again();
        });
        event_loop::get()->change(watch_, 0);
    } catch (const std::bad_alloc &) { // no timer would end the pause
        if (!suspended_)
            event_loop::get()->change(watch_, EPOLLIN);
    }
}

void listener::watch_again()
{
    constexpr int no_socket = -1;
    if (const auto wait = accepted_(no_socket); wait > std::chrono::milliseconds(0))
        return pause(wait);
    const lock_guard lock(mutex_);
    if (!suspended_)
        event_loop::get()->change(watch_, EPOLLIN);
}

poll_result listener::ready(std::uint32_t)
{
    // One connection per event: the descriptor remains ready while there are more.
    const int socket = accept4(fd_.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    const bool exhausted = socket < 0 && (errno == EMFILE || errno == ENFILE) && !descriptors::exhausted(errno);
    // Without a pause the progress thread would spin until a descriptor is free.
    const auto wait = socket >= 0 ? accepted_(socket) : std::chrono::milliseconds(exhausted ? 100 : 0);
    if (wait > std::chrono::milliseconds(0))
        pause(wait);
    return poll_result::progress;
}

} // namespace softrdma
