// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/reserve.hpp"

#include <chrono>
#include <utility>

namespace softrdma
{

// Who moves the network forward for a device, which is given one when it is opened.
class progress
{
public:
    virtual ~progress() = default;
    // A completion queue was polled and is empty: looks for input in the calling thread. True if there was some.
    virtual bool poll() = 0;
    // The program is going to wait for an event instead of polling: another thread looks after the network.
    virtual void about_to_wait() = 0;
    // Calls after the delay, from another thread and without a lock. It needs no memory that might be missing, but for
    // what is copied into the call.
    virtual void defer(reserve::call call, std::chrono::microseconds delay) = 0;
    void defer(reserve::call call) { defer(std::move(call), std::chrono::microseconds(0)); }
};

} // namespace softrdma
