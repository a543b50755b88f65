// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "net/agent.hpp"

namespace softrdma::net
{

// A listening TCP socket; hands each connection to the connection manager.
class listener : public event_handler
{
public:
    // Takes the bound descriptor and starts listening. NULL with errno.
    static std::shared_ptr<listener> open(int fd, std::uint64_t id_serial);
    listener(int fd, std::uint64_t id_serial) : fd_(fd), id_serial_(id_serial) {}
    ~listener() override;

    void ready(std::uint32_t events) override;
    void close();

private:
    const int fd_;
    const std::uint64_t id_serial_;
    agent::watch_id watch_ = 0;
};

} // namespace softrdma::net
