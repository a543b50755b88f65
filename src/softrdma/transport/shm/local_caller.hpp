// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/process.hpp"
#include "progress/event_loop.hpp"
#include "progress/unknown_callers.hpp"

namespace softrdma::net
{

// Somebody at a local socket of this process. Whoever breaks the rules is sent away.
class local_caller : public event_handler, public caller, public std::enable_shared_from_this<local_caller>
{
public:
    // Takes the socket. The others are those at sockets of the same kind.
    local_caller(int socket, unknown_callers &others) noexcept : socket_(socket), others_(others) {}
    ~local_caller() override;

    // A caller of another user is not kept. Returns what listener::receiver does.
    std::chrono::milliseconds enter();
    void send_away() override;

protected:
    // It has said something. False if it is sent away.
    bool is_heard() REQUIRES(mutex_);

    const int socket_;
    ordered_mutex mutex_{lock_level::requests};

private:
    unknown_callers &others_;
    const process::birth birth_;
    std::atomic<event_loop::watch_id> watch_{0};
    bool is_heard_ GUARDED_BY(mutex_) = false;
};

} // namespace softrdma::net
