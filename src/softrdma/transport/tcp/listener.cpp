// SPDX-License-Identifier: BSD-3-Clause
#include "transport/tcp/listener.hpp"

#include <cerrno>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace softrdma::net
{

std::shared_ptr<listener> listener::open(int fd, int backlog, receiver accepted)
{
    auto l = std::make_shared<listener>(fd, std::move(accepted));
    if (::listen(fd, backlog) != 0)
        return nullptr;
    l->watch_ = agent::get()->watch(fd, EPOLLIN, l);
    return l->watch_ == 0 ? nullptr : l;
}

listener::~listener()
{
    if (!agent::lost_by_fork())
        ::close(fd_);
}

void listener::close()
{
    agent::get()->unwatch(watch_);
    shutdown(fd_, SHUT_RDWR); // refuses connections at once, even while the agent holds a reference
}

finding listener::ready(std::uint32_t)
{
    // One at a time: the descriptor stays ready while there are more.
    const int socket = accept4(fd_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (socket >= 0) {
        accepted_(socket);
    } else if (errno == EMFILE || errno == ENFILE) {
        // The caller stays in the queue; without a pause the agent would spin until a descriptor is free.
        agent::get()->change(watch_, 0);
        agent::get()->after(std::chrono::milliseconds(100), [watch = watch_] { agent::get()->change(watch, EPOLLIN); });
    }
    return finding::something;
}

} // namespace softrdma::net
