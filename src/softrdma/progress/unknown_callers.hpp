// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "base/lock.hpp"
#include "base/reserve.hpp"

#include <chrono>
#include <deque>
#include <memory>

namespace softrdma::net
{

// Somebody who has connected to this process.
class caller
{
public:
    virtual ~caller() = default;
    // Ends the connection.
    virtual void send_away() = 0;
};

// The callers who have not said yet what they want: each holds a descriptor, and anybody can connect. Beyond a fixed
// number the oldest one is sent away for the next, and so is one that says nothing in time.
class unknown_callers
{
public:
    // What the caller says is not to be read before that has returned. Without memory for it the caller is sent away.
    // Returns how long the next one has to be left to the kernel's queue: a caller that was just accepted is not sent
    // away before its first message can have been read.
    std::chrono::milliseconds add(const std::shared_ptr<caller> &who);
    // Time until the next one can be accepted.
    std::chrono::milliseconds pause();
    // The caller has said what it wants. False if it is sent away.
    bool remove(const std::shared_ptr<caller> &who);

private:
    using clock = std::chrono::steady_clock;
    struct entry {
        std::weak_ptr<caller> who;
        clock::time_point since;
    };

    // NULL if there are fewer callers than that.
    std::shared_ptr<caller> take_oldest(std::size_t most);

    ordered_mutex mutex_{lock_level::leaf};
    std::deque<entry, reserve::allocator<entry>> callers_ GUARDED_BY(mutex_); // the oldest first
};

} // namespace softrdma::net
