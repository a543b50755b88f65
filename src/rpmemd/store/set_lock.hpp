// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "config/failure.hpp"

namespace rpmemd
{

// Lock of a mirrored set. Requests wait for it for a limited time, so that one that hangs in a disk does not block the
// sessions of all clients. Not a std::timed_mutex, whose waits the simulation cannot schedule.
class set_lock
{
public:
    void lock()
    {
        std::unique_lock guard(mutex_);
        released_.wait(guard, [this] { return !is_held_; });
        is_held_ = true;
    }
    void lock_for_request()
    {
        constexpr std::chrono::seconds limit{10};
        std::unique_lock guard(mutex_);
        if (!released_.wait_for(guard, limit, [this] { return !is_held_; }))
            throw failure(EBUSY,
                    "mirrored set busy: another request has not ended within 10 s (check the disk of the target)");
        is_held_ = true;
    }
    void unlock()
    {
        {
            const std::lock_guard guard(mutex_);
            is_held_ = false;
        }
        released_.notify_one();
    }

private:
    std::mutex mutex_;
    std::condition_variable released_;
    bool is_held_ = false;
};

inline std::unique_lock<set_lock> lock_for_request(set_lock &lock)
{
    lock.lock_for_request();
    return std::unique_lock(lock, std::adopt_lock);
}

} // namespace rpmemd
