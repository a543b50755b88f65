// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "progress/agent.hpp"

namespace softrdma::net
{

// A listening TCP socket; hands each connection to whoever opened it.
class listener : public event_handler
{
public:
    using receiver = std::function<void(int socket)>;

    // Takes the bound descriptor and starts listening. NULL with errno.
    static std::shared_ptr<listener> open(int fd, int backlog, receiver accepted);
    listener(int fd, receiver accepted) : fd_(fd), accepted_(std::move(accepted)) {}
    ~listener() override;

    finding ready(std::uint32_t events) override;
    void close();

private:
    const int fd_;
    const receiver accepted_;
    agent::watch_id watch_ = 0;
};

} // namespace softrdma::net
