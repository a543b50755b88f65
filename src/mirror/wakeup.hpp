// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <sys/eventfd.h>

#include "base/fd_owner.hpp"
#include "failure.hpp"

namespace mirror
{

// Event whose descriptor threads poll. Thread-safe.
class wakeup
{
public:
    wakeup() : event_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK))
    {
        if (!event_.valid())
            throw system_failure("cannot create an event");
    }
    void raise() const noexcept { eventfd_write(event_.get(), 1); }
    void clear() const noexcept
    {
        eventfd_t count = 0;
        eventfd_read(event_.get(), &count);
    }
    int fd() const { return event_.get(); }

private:
    const replica::fd_owner event_;
};

} // namespace mirror
