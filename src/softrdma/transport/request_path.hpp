// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <cstdint>

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

} // namespace softrdma
