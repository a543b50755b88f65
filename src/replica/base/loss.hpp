// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <cerrno>
#include <sys/eventfd.h>

#include "base/fd_owner.hpp"

namespace replica
{

// Loss of a target, with its first reason. Waits for the target poll fd(), too. Thread-safe.
class loss
{
public:
    int open()
    {
        event_.reset(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
        return event_.valid() ? 0 : errno;
    }

    void declare(int error)
    {
        int none = 0;
        if (error_.compare_exchange_strong(none, error))
            eventfd_write(event_.get(), 1);
    }

    // Returns the errno value of the first declared loss, or 0.
    int error() const { return error_.load(std::memory_order_acquire); }
    // Descriptor that stays readable after the loss.
    int fd() const { return event_.get(); }

private:
    std::atomic<int> error_ = 0;
    fd_owner event_;
};

} // namespace replica
