// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "region/region_lane.hpp"
#include "wakeup.hpp"

namespace mirror
{

// Descriptor of a lane for event loops. It combines the descriptors of all connections of the lane, edge-triggered: it
// stays readable after an event on one of them until clear(). The caller must hold the lock of the lane.
class lane_watch
{
public:
    explicit lane_watch(const wakeup &set_changed);

    int fd() const { return epoll_.get(); }
    // Makes the descriptor unreadable until the next event.
    void clear() noexcept;
    void raise() const noexcept { ready_.raise(); }

    // Adds the connection of a copy, unless it was added before. Returns 0 or an errno value.
    int add(unsigned copy, const replica::region_lane &lane, const replica::loss &lost) noexcept;
    // Forgets the replaced connection of the copy. Its descriptors leave the set when they are closed.
    void forget(unsigned copy) noexcept { added_ &= ~(1U << copy); }

    // Makes the descriptor readable at the time, or earlier if that was requested before.
    void raise_at(std::int64_t time_ms) noexcept;

private:
    int add(int fd) noexcept;

    const replica::fd_owner epoll_;
    const replica::fd_owner timer_;
    const wakeup ready_;
    std::uint32_t added_ = 0;   // copies as bits
    std::int64_t timer_ms_ = 0; // time at which the timer expires, or 0
};

} // namespace mirror
