// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/read_section.hpp"
#include "transport/shared_layout.hpp"

#include <cstdint>
#include <memory>

struct ibv_pd;

namespace softrdma
{

struct wqe;

enum class post_result {
    done,
    pending,     // the peer must post a receive first
    unsupported, // the path cannot or must not execute it: the network does
    failed,      // memory of the peer was not accessible, or could not be made durable
    lost,        // the peer is gone
};

// A path that executes a request immediately or leaves it to the network, whose response decides. Guarded by the lock
// of the queue pair; no call waits for the peer. An interface, because verbs/ is below transport/shm, like shm_peer.
class request_path
{
public:
    virtual ~request_path() = default;

    // The caller is inside the section of the queue pair. `w` has a valid length, and no request before it waits.
    virtual post_result post(const wqe &w) = 0;
    // Returns true only if post() is certain to return `unsupported`.
    virtual bool is_unsupported(const wqe &w) const noexcept = 0;
    virtual void on_network_fallback(const wqe &w) noexcept = 0; // called when the network executes the request
    virtual void peer_consumed_receive() noexcept = 0;           // the network executed its request

    // Returns true if a pending message must be posted again now: a receive was posted, or the queue pair of the peer
    // is no longer open. Otherwise the peer sends a message when it posts one.
    virtual bool request_receive_event() noexcept = 0;
    virtual std::uint32_t peer_rnr_timer() const noexcept = 0;
    virtual void on_receive_posted() noexcept = 0; // a receive of the local side

    virtual bool needs_network_for_private_memory() const noexcept = 0;
};

// A peer that knows the location of the local queue pair, and may act on it.
class shm_peer : public std::enable_shared_from_this<shm_peer>
{
public:
    virtual ~shm_peer() = default;

    virtual reader reader_of_peer() const noexcept = 0; // section in which the peer accesses local memory
    // Returns a path for acting on the queue pair of the peer; `own` is the block that the local queue pair publishes.
    virtual std::shared_ptr<request_path> open_path(qp_block &own, ibv_pd *pd) = 0;
};

} // namespace softrdma
