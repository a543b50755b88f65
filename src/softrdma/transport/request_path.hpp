// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/read_section.hpp"
#include "transport/shared_layout.hpp"

#include <atomic>
#include <cstdint>
#include <memory>

struct ibv_pd;

namespace softrdma
{

struct wqe;

// What became of a request that was posted to a path.
enum class post_result {
    done,
    pending,     // the peer has to post a receive first
    unsupported, // the path cannot execute it, or must not: the network does
    failed,      // the memory of the peer could not be used, or not be made durable
    lost,        // the peer is gone
};

// A path to the peer that executes a request at once, or not at all, beside the network, which executes all. Guarded
// by the queue pair's lock; no call waits for the peer. It never refuses anything: what it cannot do is left to the
// network, whose answer is the truth.
class request_path
{
public:
    virtual ~request_path() = default;

    // To be called inside a section of epoch(). `w` has a valid length, and nothing before it waits.
    virtual post_result post(const wqe &w) = 0;
    virtual std::atomic<std::uint32_t> &epoch() noexcept = 0;
    // Whether post() would answer `unsupported`, as far as is certain without trying.
    virtual bool surely_unsupported(const wqe &w) const noexcept = 0;
    // The network executes it.
    virtual void left_to_network(const wqe &w) noexcept = 0;
    // The network has executed a request that consumed one of the peer's receives.
    virtual void peer_consumed_receive() noexcept = 0;

    // True if a pending message is to be posted again now: a receive has been posted, or the peer's queue pair is not
    // open any more. Else the peer says when it posts one.
    virtual bool ask_for_receive() noexcept = 0;
    virtual std::uint32_t peer_rnr_timer() const noexcept = 0;
    // This side has posted a receive, for which the peer may wait.
    virtual void receive_is_posted() noexcept = 0;

    // The peer's private memory is reached by the network only.
    virtual bool leaves_private_memory() const noexcept = 0;
};

// A peer that has been told where this side's queue pair is, and may act on it.
class acting_peer : public std::enable_shared_from_this<acting_peer>
{
public:
    virtual ~acting_peer() = default;

    // Says when the peer is inside an operation on our memory.
    virtual local::reader reader_of_peer() const noexcept = 0;
    // To act on the peer's queue pair in turn; `own` is what ours publishes.
    virtual std::unique_ptr<request_path> open_path(local::qp_block &own, ibv_pd *pd) = 0;
};

} // namespace softrdma
