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
    // Checks for input in the calling thread, which found its completion queue empty. Returns true if there was input.
    virtual bool poll() = 0;
    // Called before the program waits for an event instead of polling: another thread serves the network.
    virtual void about_to_wait() = 0;
    // Makes a call after the delay, without a lock, and repeats it after std::bad_alloc. No effect on a pending call.
    virtual void defer(reserve::prepared_call call, std::chrono::microseconds delay) noexcept = 0;
    // Uses reserved memory for the call, except for data that is copied into it.
    void defer(reserve::call call, std::chrono::microseconds delay)
    {
        defer(reserve::prepared_call(std::move(call)), delay);
    }
};

} // namespace softrdma
