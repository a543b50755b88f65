// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/unique_fd.hpp"

#include <cstdint>
#include <memory>

namespace softrdma
{

class peer_process;

// Connection to a peer, which passes its descriptors on request: no descriptor is taken from a process without its
// consent. An interface, because its only implementation is private to fd_client.cpp.
class peer_line
{
public:
    virtual ~peer_line() = default;
    virtual void serve(std::weak_ptr<peer_process> requester) = 0; // receiver of later replies
    // Requests the file behind a region; the response calls peer_process::take_file(). Returns false if the caller must
    // retry.
    virtual bool request_file(std::uint32_t key, std::uint64_t generation) = 0;
    virtual bool broken() const noexcept = 0; // whether the process at the other end is gone
};

// Descriptors that a peer passes with its first response.
struct handover {
    unique_fd arena;
    unique_fd completion_fd; // eventfd of the receive completion queue; empty if it needs no events
    std::unique_ptr<peer_line> to_peer;
    std::uint32_t pid = 0; // process ID of the sender according to the kernel; 0 if not in the local PID namespace
};

} // namespace softrdma
