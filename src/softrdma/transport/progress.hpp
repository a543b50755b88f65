// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/reserve.hpp"

#include <chrono>
#include <utility>

namespace softrdma
{

// Interface of the progress engine of the network. A device gets one when it is opened.
class progress
{
public:
    virtual ~progress() = default;
    // Called when a polled completion queue was empty: checks for input in the calling thread. Returns true if input
    // was found.
    virtual bool poll() = 0;
    // Called before the program waits for an event instead of polling: another thread serves the network.
    virtual void about_to_wait() = 0;
    // Calls a function after the delay, from another thread and without a lock. The call is repeated if it throws
    // std::bad_alloc. An empty one is deferred already: no effect.
    virtual void defer(reserve::prepared_call call, std::chrono::microseconds delay) noexcept = 0;
    // Uses reserved memory for the call, except for data that is copied into it.
    void defer(reserve::call call, std::chrono::microseconds delay)
    {
        defer(reserve::prepared_call(std::move(call)), delay);
    }
};

} // namespace softrdma
