// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <chrono>
#include <functional>
#include <utility>

namespace softrdma
{

// Who moves the network forward for a device, which is given one when it is opened.
class progress
{
public:
    virtual ~progress() = default;
    // A completion queue was polled and is empty: looks for input in the calling thread.
    virtual void poll() = 0;
    // The program is going to wait for an event instead of polling: another thread looks after the network.
    virtual void about_to_wait() = 0;
    // Calls after the delay, from another thread and without a lock.
    virtual void defer(std::function<void()> call, std::chrono::microseconds delay) = 0;
    void defer(std::function<void()> call) { defer(std::move(call), std::chrono::microseconds(0)); }
};

} // namespace softrdma
