// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "progress/event_loop.hpp"
#include "base/process.hpp"

namespace softrdma
{

// A listening socket that passes each connection to the owner.
class listener : public event_handler, public std::enable_shared_from_this<listener>
{
public:
    // Takes ownership of `socket` if it is >= 0. Returns for how long connections remain in the kernel's queue.
    using receiver = std::function<std::chrono::milliseconds(int socket)>;

    // Takes ownership of the bound descriptor and starts listening. Returns NULL and sets errno on error.
    static std::shared_ptr<listener> open(int fd, int backlog, receiver accepted);
    listener(unique_fd fd, receiver accepted) : fd_(std::move(fd)), accepted_(std::move(accepted)) {}

    poll_result ready(std::uint32_t events) override;
    void close();
    void suspend(); // leaves connections in the kernel's queue until resume()
    void resume();

private:
    void pause(std::chrono::milliseconds duration);
    void watch_again();

    const process::watched_fd fd_;
    const receiver accepted_;
    event_loop::watch_id watch_ = 0;
    ordered_mutex mutex_{lock_level::sending};
    bool suspended_ GUARDED_BY(mutex_) = false;
};

} // namespace softrdma
