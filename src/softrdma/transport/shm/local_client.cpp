// SPDX-License-Identifier: BSD-3-Clause
#include "transport/shm/local_client.hpp"
#include "transport/shm/fd_message.hpp"

#include <sys/epoll.h>

namespace softrdma
{

std::chrono::milliseconds local_client::enter()
{
    if (!process_of_own_user(socket_.get()))
        return std::chrono::milliseconds(0);
    const lock_guard lock(mutex_); // no message is read before it is in the list
    watch_ = event_loop::get()->watch(socket_.get(), EPOLLIN, shared_from_this());
    return others_.add(shared_from_this());
}

} // namespace softrdma
