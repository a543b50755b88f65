// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "transport/tcp/tcp_conn.hpp"

#include <chrono>
#include <deque>
#include <memory>

namespace softrdma::net
{

// The accepted connections whose peers have not said yet what they want: each holds a descriptor, and anybody can open
// them. Beyond a fixed number the oldest one is closed for the next. Guarded by cm::lock().
class unknown_callers
{
public:
    using clock = std::chrono::steady_clock;
    // A caller sends its first message as soon as it is connected.
    static constexpr auto first_message_time = std::chrono::seconds(2);

    // Returns how long the next connection has to be left to the kernel's queue: a caller that was just accepted is not
    // closed before its first message can have been read.
    std::chrono::milliseconds add(const std::shared_ptr<tcp_conn> &path);
    // The caller has said what it wants, or its time is over. False if it was closed before.
    bool remove(const std::shared_ptr<tcp_conn> &path);

private:
    struct caller {
        std::weak_ptr<tcp_conn> path;
        clock::time_point since;
    };

    std::deque<caller> callers_; // the oldest first
};

} // namespace softrdma::net
