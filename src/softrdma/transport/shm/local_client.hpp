// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/process.hpp"
#include "progress/event_loop.hpp"
#include "progress/pending_peers.hpp"

namespace softrdma
{

// A client at a local socket of this process. A client that breaks the protocol is disconnected.
class local_client : public event_handler, public pending_peer, public std::enable_shared_from_this<local_client>
{
public:
    local_client(unique_fd socket, pending_peers &others) noexcept : socket_(std::move(socket)), others_(others) {}

    // Accepts the client unless it belongs to another user. Returns the same value as listener::receiver.
    std::chrono::milliseconds enter();
    void drop() override { event_loop::get()->unwatch(watch_); }
    void out_of_memory() noexcept override { drop(); } // otherwise the client waits for its reply

protected:
    // Called when a message has arrived. Returns false if the client was disconnected.
    bool on_message() REQUIRES(mutex_)
    {
        has_request_ = has_request_ || others_.remove(shared_from_this());
        return has_request_;
    }

    const process::watched_fd socket_;
    ordered_mutex mutex_{lock_level::requests};

private:
    pending_peers &others_;
    std::atomic<event_loop::watch_id> watch_{0};
    bool has_request_ GUARDED_BY(mutex_) = false;
};

} // namespace softrdma
