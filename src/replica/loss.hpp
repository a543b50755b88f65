// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <atomic>
#include <cerrno>
#include <sys/eventfd.h>

#include "fd_owner.hpp"

namespace replica
{

// Whether a target is lost, and why: the first reason stays. What waits for the target also waits for this.
class loss
{
public:
    // 0, or an errno.
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

    // 0: not lost.
    int error() const { return error_.load(std::memory_order_acquire); }
    // Readable from the moment of the loss on.
    int fd() const { return event_.get(); }

private:
    std::atomic<int> error_ = 0;
    fd_owner event_;
};

} // namespace replica
