// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/unique_fd.hpp"

#include <cstdint>
#include <memory>

namespace softrdma::local
{

class peer_process;

// To a peer, which is asked for what it shares and hands it over: nothing is ever taken from a process.
class peer_line
{
public:
    virtual ~peer_line() = default;
    // Who is told what has come.
    virtual void serve(std::weak_ptr<peer_process> asker) = 0;
    // Asks for the file behind a region; the answer is peer_process::take_file(). False if that is to be tried again.
    virtual bool ask_for_file(std::uint32_t key, std::uint64_t generation) = 0;
    // The process at the other end is gone.
    virtual bool broken() const noexcept = 0;
};

// What a peer hands over when it is asked for the first time.
struct handover {
    unique_fd arena;
    unique_fd completion_fd; // of the queue pair's receive completion queue; none if that wants no events
    std::unique_ptr<peer_line> to_peer;
    std::uint32_t pid = 0; // of the process that handed over, as the kernel says; 0: in no PID namespace of ours
};

} // namespace softrdma::local
